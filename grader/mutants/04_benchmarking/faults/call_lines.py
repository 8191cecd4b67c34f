# expect: accepted
# The lines of the calls.


def faults():
    return {"compile": 2, "clocks": 5, "cache": 8, "queue": 9, "outliers": 11}

# expect: accepted
# Blames the synchronize that comes too late.


def faults():
    return {"compile": 1, "clocks": 4, "cache": 7, "queue": 10, "outliers": 11}

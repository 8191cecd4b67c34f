# expect: wrong-formula
# Cache and queue swapped.


def faults():
    return {"compile": 3, "clocks": 4, "cache": 9, "queue": 8, "outliers": 11}

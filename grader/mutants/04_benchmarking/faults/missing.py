# expect: wrong-formula
# One fault is not named.


def faults():
    return {"compile": 3, "clocks": 4, "queue": 9, "outliers": 11}

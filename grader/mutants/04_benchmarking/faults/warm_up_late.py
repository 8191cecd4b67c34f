# expect: wrong-formula
# Takes the sampling loop for the warm-up.


def faults():
    return {"compile": 3, "clocks": 6, "cache": 8, "queue": 9, "outliers": 11}

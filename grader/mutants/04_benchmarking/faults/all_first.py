# expect: wrong-formula
# All faults on one line.


def faults():
    return dict.fromkeys(["compile", "clocks", "cache", "queue", "outliers"], 1)

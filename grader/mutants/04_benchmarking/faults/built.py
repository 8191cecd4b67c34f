# expect: accepted
# Builds the dictionary.


def faults():
    names = ["compile", "clocks", "cache", "queue", "outliers"]
    return dict(zip(names, [3, 5, 6, 9, 11], strict=True))

# expect: wrong-formula
# A list in place of the dictionary.


def faults():
    return [3, 4, 8, 9, 11]

# expect: wrong-formula
# No return.


def faults():
    pass

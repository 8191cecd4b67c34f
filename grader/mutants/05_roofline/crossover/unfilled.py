# expect: unfilled
# The stub as it is released.


def crossover(itemsize, peak, bandwidth):
    raise NotImplementedError("crossover is not written yet")

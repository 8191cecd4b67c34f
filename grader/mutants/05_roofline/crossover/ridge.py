# expect: wrong-formula
# The ridge itself.


def crossover(itemsize, peak, bandwidth):
    return peak / bandwidth

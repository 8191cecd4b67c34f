# expect: wrong-formula
# Moves elements in place of bytes.


def crossover(itemsize, peak, bandwidth):
    return 1.5 * peak / bandwidth

# expect: wrong-formula
# Forgets that C moves.


def crossover(itemsize, peak, bandwidth):
    return itemsize * peak / bandwidth

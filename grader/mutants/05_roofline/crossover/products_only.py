# expect: wrong-formula
# Counts products without additions.


def crossover(itemsize, peak, bandwidth):
    return 3 * itemsize * peak / bandwidth

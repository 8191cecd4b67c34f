# expect: wrong-formula
# Holds for fp16 alone.


def crossover(itemsize, peak, bandwidth):
    return 3 * peak / bandwidth

# expect: accepted
# The next whole number.


def crossover(itemsize, peak, bandwidth):
    side = 3 * itemsize * peak / (2 * bandwidth)
    return int(side) + 1

# expect: accepted
# Goes up until the intensity is there.


def crossover(itemsize, peak, bandwidth):
    side = 1.0
    while 2 * side**3 / (3 * side**2 * itemsize) < peak / bandwidth:
        side *= 1.0001
    return side

# expect: accepted
# Bisects where both times are equal.


def crossover(itemsize, peak, bandwidth):
    low, high = 1.0, 1e6
    for _ in range(60):
        side = (low + high) / 2
        if 2 * side**3 / peak < 3 * side**2 * itemsize / bandwidth:
            low = side
        else:
            high = side
    return low

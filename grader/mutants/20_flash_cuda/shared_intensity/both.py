# expect: accepted
# Both products, both tiles.
def shared_intensity(rows, itemsize):
    return 4 * rows / (2 * itemsize)

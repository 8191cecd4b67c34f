# expect: accepted
# By way of bits.
def shared_intensity(rows, itemsize):
    return 16 * rows / (8 * itemsize)

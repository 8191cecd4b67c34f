# expect: accepted
# By way of bits.
def intensity(queries, group, itemsize):
    return 16 * group * queries / (8 * itemsize)

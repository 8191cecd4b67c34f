# expect: accepted
# Both products, both arrays.
def intensity(queries, group, itemsize):
    return 4 * group * queries / (2 * itemsize)

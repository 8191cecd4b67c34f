# expect: wrong-formula
# The key head is read for each query head.
def intensity(queries, group, itemsize):
    return 2 * queries / itemsize

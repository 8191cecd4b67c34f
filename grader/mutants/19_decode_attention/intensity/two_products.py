# expect: wrong-formula
# Both products on the bytes of the keys.
def intensity(queries, group, itemsize):
    return 4 * group * queries / itemsize

# expect: wrong-formula
# For each element.
def intensity(queries, group, itemsize):
    return 2 * group * queries

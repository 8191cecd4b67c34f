# expect: wrong-formula
# A multiply-add counted once.
def intensity(queries, group, itemsize):
    return group * queries / itemsize

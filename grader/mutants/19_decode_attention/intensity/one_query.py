# expect: wrong-formula
# One query whatever there are.
def intensity(queries, group, itemsize):
    return 2 * group / itemsize

# expect: accepted
# The key alone.
def intensity(queries, group, itemsize):
    return queries * group * 2 / itemsize

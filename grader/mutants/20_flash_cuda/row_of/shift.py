# expect: accepted
# By shifts.
def row_of(lane, i):
    return (lane >> 2) + ((i >> 1) << 3)

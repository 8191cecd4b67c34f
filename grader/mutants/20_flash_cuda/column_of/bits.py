# expect: accepted
# By bits.
def column_of(lane, i):
    return ((lane & 3) << 1) | (i & 1)

# expect: wrong-formula
# Rows of eight lanes.
def row_of(lane, i):
    return lane // 8 + 8 * (i // 2)

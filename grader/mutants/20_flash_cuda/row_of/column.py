# expect: wrong-formula
# The column.
def row_of(lane, i):
    return lane % 4 * 2 + i % 2

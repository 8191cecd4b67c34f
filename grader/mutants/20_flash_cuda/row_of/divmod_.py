# expect: accepted
# By divmod.
def row_of(lane, i):
    row, _ = divmod(lane, 4)
    return row + 8 * (i // 2)

# expect: wrong-formula
# The next row in place of the eighth.
def row_of(lane, i):
    return lane // 4 + i // 2

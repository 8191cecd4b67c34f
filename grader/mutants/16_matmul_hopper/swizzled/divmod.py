# expect: accepted
# With divmod.
def swizzled(row, column):
    piece, rest = divmod(column, 8)
    return 128 * row + 16 * (piece ^ (row & 7)) + 2 * rest

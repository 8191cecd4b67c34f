# expect: wrong-formula
# All bits of the row.
def swizzled(row, column):
    return row * 128 + (column // 8 ^ row) * 16 + column % 8 * 2

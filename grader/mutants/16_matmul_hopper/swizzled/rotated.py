# expect: wrong-formula
# Turned by the row, not joined by XOR.
def swizzled(row, column):
    return row * 128 + (column // 8 + row) % 8 * 16 + column % 8 * 2

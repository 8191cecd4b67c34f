# expect: wrong-formula
# Elements in place of bytes.
def swizzled(row, column):
    return row * 64 + (column // 8 ^ row % 8) * 8 + column % 8

# expect: wrong-formula
# Elements change places, not pieces.
def swizzled(row, column):
    return row * 128 + (column ^ row % 8) * 2

# expect: wrong-formula
# No swizzle.
def swizzled(row, column):
    return row * 128 + column * 2

# expect: accepted
# In elements, then in bytes.
def swizzled(row, column):
    return 2 * (row * 64 + (column // 8 ^ row % 8) * 8 + column % 8)

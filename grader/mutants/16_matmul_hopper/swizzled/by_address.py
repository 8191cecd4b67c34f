# expect: accepted
# As the hardware does it: bits 7 to 9 of the address into bits 4 to 6.
def swizzled(row, column):
    at = row * 128 + column * 2
    return at ^ (at >> 7 & 7) << 4

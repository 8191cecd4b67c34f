# expect: accepted
# As a fraction.

from fractions import Fraction


def tile_intensity(block_m, block_n, itemsize):
    return Fraction(2 * block_m * block_n, (block_m + block_n) * itemsize)

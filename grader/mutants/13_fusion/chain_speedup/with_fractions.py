# expect: accepted
# As a fraction of whole numbers.

from fractions import Fraction


def chain_speedup(B, T, H):
    x = B * T * H
    return Fraction(7 * x + H, 3 * x + H)

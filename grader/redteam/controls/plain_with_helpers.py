# tries: a plain answer with helpers, a cache and a class
# exercise: 00_start/number_of_programs
# expect: accepted

import functools
import math
from fractions import Fraction


class Blocks:
    def __init__(self, size: int):
        self.size = size

    @functools.lru_cache  # noqa: B019
    def cover(self, n: int) -> int:
        return math.ceil(Fraction(n, self.size))


def number_of_programs(n, block):
    """Rounded up, without the rounding of floats."""
    print("counting", n, block)
    return Blocks(block).cover(n)

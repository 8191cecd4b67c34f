# expect: accepted
# The closed form: the greatest common divisor of stride and 32.
import math


def passes_for_stride(stride):
    return math.gcd(stride, 32) if stride else 1

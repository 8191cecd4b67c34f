# expect: wrong-formula
# The sum relative to 0 in place of the new maximum.
import math


def merged_sum(m1, l1, m2, l2):
    return l1 * math.exp(min(m1, 700)) + l2 * math.exp(min(m2, 700))

# expect: wrong-formula
# Multiplies by exp(m - m1).
import math


def merged_sum(m1, l1, m2, l2):
    m = max(m1, m2)
    return l1 * math.exp(min(m - m1, 700)) + l2 * math.exp(min(m - m2, 700))

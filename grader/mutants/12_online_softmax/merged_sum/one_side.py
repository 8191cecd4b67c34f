# expect: wrong-formula
# Always rescales the first part alone.
import math


def merged_sum(m1, l1, m2, l2):
    m = max(m1, m2)
    return l1 * math.exp(m1 - m) + l2 if m > -math.inf else 0.0

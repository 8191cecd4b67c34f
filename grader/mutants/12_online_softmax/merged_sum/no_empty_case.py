# expect: wrong-formula
# -inf - -inf: NaN for two empty parts.
import math


def merged_sum(m1, l1, m2, l2):
    m = max(m1, m2)
    return l1 * math.exp(m1 - m) + l2 * math.exp(m2 - m)

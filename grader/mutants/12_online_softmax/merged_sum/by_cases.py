# expect: accepted
# Rescales only the part with the smaller maximum.
import math


def merged_sum(m1, l1, m2, l2):
    if m1 == m2:
        return l1 + l2
    if m1 > m2:
        return l1 + l2 * math.exp(m2 - m1)
    return l2 + l1 * math.exp(m1 - m2)

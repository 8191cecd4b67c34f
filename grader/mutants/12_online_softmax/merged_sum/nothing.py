# expect: wrong-values
# Forgets the return.
import math


def merged_sum(m1, l1, m2, l2):
    m = max(m1, m2)
    l1 * math.exp(m1 - m) + l2 * math.exp(m2 - m)

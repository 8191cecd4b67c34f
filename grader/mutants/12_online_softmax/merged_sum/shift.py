# expect: accepted
# Subtracts 0 where the maximum is -inf, as the kernels do.
import math


def merged_sum(m1, l1, m2, l2):
    m = max(m1, m2)
    shift = 0.0 if m == -math.inf else m
    return l1 * math.exp(m1 - shift) + l2 * math.exp(m2 - shift)

# expect: accepted
# By way of the log-sum-exp.
import math


def merged_sum(m1, l1, m2, l2):
    parts = [(m, l) for m, l in ((m1, l1), (m2, l2)) if l > 0]
    m = max(m1, m2)
    return sum(math.exp(math.log(l) + k - m) for k, l in parts)

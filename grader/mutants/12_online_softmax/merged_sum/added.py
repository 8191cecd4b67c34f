# expect: wrong-formula
# Adds the sums as they are.


def merged_sum(m1, l1, m2, l2):
    return l1 + l2

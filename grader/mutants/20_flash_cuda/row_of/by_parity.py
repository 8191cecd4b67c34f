# expect: wrong-formula
# Odd numbers below even ones.
def row_of(lane, i):
    return lane // 4 + 8 * (i % 2)

# expect: accepted
# With a condition.
def row_of(lane, i):
    return lane // 4 + (8 if i >= 2 else 0)

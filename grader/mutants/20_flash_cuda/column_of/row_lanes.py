# expect: wrong-formula
# Lanes counted down the rows.
def column_of(lane, i):
    return lane // 4 * 2 + i % 2

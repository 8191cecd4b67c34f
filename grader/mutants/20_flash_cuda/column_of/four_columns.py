# expect: wrong-formula
# Four numbers beside each other.
def column_of(lane, i):
    return lane % 4 * 2 + i

# expect: wrong-formula
# The second number below the first.
def column_of(lane, i):
    return lane % 4 * 2 + i // 2

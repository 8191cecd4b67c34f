# expect: wrong-formula
# The first of two columns.
def column_of(lane, i):
    return lane % 4 * 2

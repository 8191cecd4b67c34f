# expect: wrong-formula
# One column for each lane.
def column_of(lane, i):
    return lane % 4 + i % 2

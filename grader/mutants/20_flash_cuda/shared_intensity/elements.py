# expect: wrong-formula
# For each element.
def shared_intensity(rows, itemsize):
    return 2 * rows

# expect: wrong-formula
# One query.
def shared_intensity(rows, itemsize):
    return 2 / itemsize

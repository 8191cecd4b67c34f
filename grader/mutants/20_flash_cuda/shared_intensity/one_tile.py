# expect: wrong-formula
# Both products on the bytes of one tile.
def shared_intensity(rows, itemsize):
    return 4 * rows / itemsize

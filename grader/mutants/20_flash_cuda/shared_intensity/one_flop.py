# expect: wrong-formula
# A multiply-add counted once.
def shared_intensity(rows, itemsize):
    return rows / itemsize

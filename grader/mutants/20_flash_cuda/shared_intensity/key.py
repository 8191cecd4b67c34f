# expect: accepted
# The key alone.
def shared_intensity(rows, itemsize):
    return rows * 2 / itemsize

# expect: wrong-formula
# Divides the bytes asked for by a sector, whatever the stride.


def sectors_per_request(stride, itemsize, first):
    return 32 * itemsize // 32

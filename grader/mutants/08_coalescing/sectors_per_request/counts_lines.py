# expect: wrong-formula
# Counts lines of 128 bytes.


def sectors_per_request(stride, itemsize, first):
    return len({(first + k * stride) * itemsize // 128 for k in range(32)})

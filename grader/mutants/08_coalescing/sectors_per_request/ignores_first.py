# expect: wrong-formula
# Takes lane 0 for the one that loads element 0.


def sectors_per_request(stride, itemsize, first):
    return len({k * stride * itemsize // 32 for k in range(32)})

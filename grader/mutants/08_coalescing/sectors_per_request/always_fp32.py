# expect: wrong-formula
# Takes every element for four bytes.


def sectors_per_request(stride, itemsize, first):
    return len({(first + k * stride) * 4 // 32 for k in range(32)})

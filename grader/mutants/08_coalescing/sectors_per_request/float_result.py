# expect: accepted
# A float with the right value.


def sectors_per_request(stride, itemsize, first):
    return float(len({(first + k * stride) * itemsize // 32 for k in range(32)}))

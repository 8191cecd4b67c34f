# expect: accepted
# Sectors between first and last lane, or one for each lane where lanes lie at least a sector apart.


def sectors_per_request(stride, itemsize, first):
    step = stride * itemsize
    if step >= 32:
        return 32
    return (first + 31 * stride) * itemsize // 32 - first * itemsize // 32 + 1

# expect: wrong-formula
# Counts the sectors between the first lane and the last, also those that no lane touches.


def sectors_per_request(stride, itemsize, first):
    return (first + 31 * stride) * itemsize // 32 - first * itemsize // 32 + 1

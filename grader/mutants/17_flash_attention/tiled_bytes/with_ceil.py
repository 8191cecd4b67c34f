# expect: accepted
# With math.ceil.

import math


def tiled_bytes(N, D, block_m, itemsize):
    return itemsize * 2 * N * D * (math.ceil(N / block_m) + 1)

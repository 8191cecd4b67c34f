# expect: accepted
# With math.ceil.

import math


def busy_share(M, N, block_m, block_n, sms):
    tiles = math.ceil(M / block_m) * math.ceil(N / block_n)
    return (M * N) / (math.ceil(tiles / sms) * sms * block_m * block_n)

# expect: accepted
# Program by program.


def tiled_bytes(N, D, block_m, itemsize):
    moved = 0
    for first in range(0, N, block_m):
        own = min(block_m, N - first)
        moved += 2 * own * D + 2 * N * D
    return moved * itemsize

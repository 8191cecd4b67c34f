# expect: accepted
# Line by line.


def naive_bytes(M, N, itemsize):
    moved = 0
    for reads, writes in ((M * N, M), (M * N + M, M * N), (M * N, M * N), (M * N, M), (M * N + M, M * N)):
        moved += (reads + writes) * itemsize
    return moved

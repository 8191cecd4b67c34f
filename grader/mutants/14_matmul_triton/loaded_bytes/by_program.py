# expect: accepted
# So many programs, each with its bytes.


def loaded_bytes(M, N, K, block_m, block_n, itemsize):
    rows = sum(M for _ in range(0, N, block_n))
    columns = sum(N for _ in range(0, M, block_m))
    return (rows + columns) * K * itemsize

# expect: accepted
# Over a list of arrays.


def kept_bytes(heads, N, D, itemsize):
    arrays = {name: heads * N * D * itemsize for name in ("q", "k", "v", "out")} | {"lse": heads * N * 4}
    return sum(arrays.values())

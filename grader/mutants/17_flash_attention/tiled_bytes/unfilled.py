# expect: unfilled
# The stub.
def tiled_bytes(N, D, block_m, itemsize):
    raise NotImplementedError("tiled_bytes is not written yet")

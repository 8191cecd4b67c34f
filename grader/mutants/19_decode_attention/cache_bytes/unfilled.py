# expect: unfilled
# The stub.
def cache_bytes(layers, key_heads, D, tokens, itemsize):
    raise NotImplementedError("cache_bytes is not written yet")

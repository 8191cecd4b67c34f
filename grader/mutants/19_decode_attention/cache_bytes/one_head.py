# expect: wrong-formula
# One head.
def cache_bytes(layers, key_heads, D, tokens, itemsize):
    return 2 * layers * D * tokens * itemsize

# expect: wrong-formula
# One layer.
def cache_bytes(layers, key_heads, D, tokens, itemsize):
    return 2 * key_heads * D * tokens * itemsize

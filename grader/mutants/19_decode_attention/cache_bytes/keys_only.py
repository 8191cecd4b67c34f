# expect: wrong-formula
# Values are missing.
def cache_bytes(layers, key_heads, D, tokens, itemsize):
    return layers * key_heads * D * tokens * itemsize

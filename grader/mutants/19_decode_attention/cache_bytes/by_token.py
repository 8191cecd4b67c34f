# expect: accepted
# Bytes of a token first.
def cache_bytes(layers, key_heads, D, tokens, itemsize):
    return tokens * (layers * (2 * key_heads * D * itemsize))

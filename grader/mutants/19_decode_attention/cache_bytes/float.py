# expect: accepted
# A float is a number too.
def cache_bytes(layers, key_heads, D, tokens, itemsize):
    return 2.0 * layers * key_heads * D * tokens * itemsize

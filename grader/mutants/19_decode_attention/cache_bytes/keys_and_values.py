# expect: accepted
# Keys plus values.
def cache_bytes(layers, key_heads, D, tokens, itemsize):
    keys = layers * key_heads * D * tokens * itemsize
    return keys + keys

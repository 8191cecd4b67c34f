# expect: wrong-formula
# Elements, not bytes.
def cache_bytes(layers, key_heads, D, tokens, itemsize):
    return 2 * layers * key_heads * D * tokens

# expect: wrong-formula
# With the square of the tokens.
def cache_bytes(layers, key_heads, D, tokens, itemsize):
    return 2 * layers * key_heads * D * tokens**2 * itemsize

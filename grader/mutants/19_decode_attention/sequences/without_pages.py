# expect: wrong-formula
# Memory is given out by the token.
def sequences(memory, token_bytes, length, page):
    return memory // (length * token_bytes)

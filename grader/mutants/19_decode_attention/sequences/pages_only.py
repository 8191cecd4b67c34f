# expect: wrong-formula
# The number of pages.
def sequences(memory, token_bytes, length, page):
    return memory // (page * token_bytes)

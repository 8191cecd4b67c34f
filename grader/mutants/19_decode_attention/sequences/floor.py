# expect: wrong-formula
# Pages of a sequence rounded down.
def sequences(memory, token_bytes, length, page):
    return memory // (page * token_bytes) // max(length // page, 1)

# expect: wrong-formula
# Parts of sequences.
def sequences(memory, token_bytes, length, page):
    return memory // (page * token_bytes) / -(-length // page)

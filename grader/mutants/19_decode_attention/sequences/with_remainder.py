# expect: accepted
# Rounded up with a remainder.
def sequences(memory, token_bytes, length, page):
    each = length // page + (length % page > 0)
    return int(memory // (page * token_bytes) // each)

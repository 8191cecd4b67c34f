# expect: accepted
# Bytes of a sequence's pages.
def sequences(memory, token_bytes, length, page):
    return memory // (-(-length // page) * page * token_bytes)

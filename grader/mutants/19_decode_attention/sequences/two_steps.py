# expect: accepted
# Pages, then sequences.
def sequences(memory, token_bytes, length, page):
    pages = memory // (page * token_bytes)
    return pages // -(-length // page)

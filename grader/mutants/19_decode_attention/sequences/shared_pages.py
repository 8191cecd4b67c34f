# expect: wrong-formula
# The end of one sequence and the start of the next on a page.
def sequences(memory, token_bytes, length, page):
    return memory // (page * token_bytes) * page // length

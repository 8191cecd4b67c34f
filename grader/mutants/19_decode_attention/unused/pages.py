# expect: accepted
# Pages times their size, less the tokens.
def unused(length, page):
    return -(-length // page) * page - length

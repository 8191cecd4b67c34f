# expect: wrong-formula
# Pages rounded down.
def unused(length, page):
    return length // page * page - length

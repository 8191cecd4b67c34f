# expect: wrong-formula
# The room itself.
def unused(length, page):
    return -(-length // page) * page

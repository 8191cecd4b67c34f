# expect: wrong-formula
# Tokens on the last page.
def unused(length, page):
    return length % page

# expect: wrong-formula
# A full last page leaves a page.
def unused(length, page):
    return page - length % page

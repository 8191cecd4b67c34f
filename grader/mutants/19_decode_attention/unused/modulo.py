# expect: accepted
# A remainder of the negative.
def unused(length, page):
    return -length % page

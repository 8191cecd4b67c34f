# expect: accepted
# The remainder twice.
def unused(length, page):
    return (page - length % page) % page

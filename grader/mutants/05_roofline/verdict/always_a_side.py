# expect: wrong-formula
# Names a side whatever the time.


def verdict(work, seconds, roof):
    return roof.bound(work)

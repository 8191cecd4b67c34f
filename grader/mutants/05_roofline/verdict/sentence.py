# expect: wrong-formula
# A sentence in place of the word.


def verdict(work, seconds, roof):
    return f"It is {roof.bound(work)}-bound."

# expect: unfilled
# The stub as it is released.


def verdict(work, seconds, roof):
    raise NotImplementedError("verdict is not written yet")

# expect: unfilled
# The stub as it is released.


def register_budget(threads, blocks, capability):
    raise NotImplementedError("register_budget is not written yet")

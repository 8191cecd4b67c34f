# expect: unfilled
# The stub as it is released.


def blocks_by_shared(shared_bytes, capability):
    raise NotImplementedError("blocks_by_shared is not written yet")

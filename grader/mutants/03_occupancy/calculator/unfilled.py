# expect: unfilled
# The stub as it is released.


def occupancy(threads, registers, shared_bytes, capability):
    raise NotImplementedError("occupancy is not written yet")

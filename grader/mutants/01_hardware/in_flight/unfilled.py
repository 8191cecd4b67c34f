# expect: unfilled
# The stub as it is released.


def bytes_in_flight(gbs, latency_ns):
    raise NotImplementedError("bytes_in_flight is not written yet")

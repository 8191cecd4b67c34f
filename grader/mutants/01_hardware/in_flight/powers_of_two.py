# expect: wrong-formula
# A GB of 2^30 bytes.


def bytes_in_flight(gbs, latency_ns):
    return gbs * 2**30 * latency_ns * 1e-9

# expect: accepted
# A GB/s is a byte a nanosecond.


def bytes_in_flight(gbs, latency_ns):
    return latency_ns * gbs

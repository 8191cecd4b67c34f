# expect: wrong-formula
# Takes nanoseconds for seconds.


def bytes_in_flight(gbs, latency_ns):
    return gbs * 1e9 * latency_ns

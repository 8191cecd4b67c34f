# expect: accepted
# Over the time of one byte.


def bytes_in_flight(gbs, latency_ns):
    return latency_ns / (1 / gbs)

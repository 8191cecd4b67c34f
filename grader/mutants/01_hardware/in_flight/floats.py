# expect: wrong-formula
# Counts floats.


def bytes_in_flight(gbs, latency_ns):
    return gbs * latency_ns / 4

# expect: wrong-formula
# In kilobytes.


def bytes_in_flight(gbs, latency_ns):
    return gbs * latency_ns / 1000

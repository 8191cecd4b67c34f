# expect: wrong-formula
# Divides where it should multiply.


def bytes_in_flight(gbs, latency_ns):
    return gbs * 1e9 / latency_ns

# expect: accepted
# Both in SI units.


def bytes_in_flight(gbs, latency_ns):
    return (gbs * 1e9) * (latency_ns * 1e-9)

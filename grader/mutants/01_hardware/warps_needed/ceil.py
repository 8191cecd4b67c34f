# expect: accepted
# With math.ceil.


def warps_needed(gbs, latency_ns, sms, bytes_per_lane):
    import math

    return math.ceil(gbs * latency_ns / (sms * 32 * bytes_per_lane))

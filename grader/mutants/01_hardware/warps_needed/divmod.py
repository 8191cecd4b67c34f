# expect: accepted
# Whole warps, and one more for a rest.


def warps_needed(gbs, latency_ns, sms, bytes_per_lane):
    full, rest = divmod(gbs * latency_ns, sms * 32 * bytes_per_lane)
    return full + (rest > 0)

# expect: wrong-formula
# Threads, not warps.


def warps_needed(gbs, latency_ns, sms, bytes_per_lane):
    return -(-gbs * latency_ns // (sms * bytes_per_lane))

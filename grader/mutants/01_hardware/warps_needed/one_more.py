# expect: wrong-formula
# One more also where it comes out even.


def warps_needed(gbs, latency_ns, sms, bytes_per_lane):
    return gbs * latency_ns // (sms * 32 * bytes_per_lane) + 1

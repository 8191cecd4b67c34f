# expect: wrong-formula
# Takes each lane to load a float.


def warps_needed(gbs, latency_ns, sms, bytes_per_lane):
    return -(-gbs * latency_ns // (sms * 32 * 4))

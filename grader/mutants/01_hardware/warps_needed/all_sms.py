# expect: wrong-formula
# All warps of the GPU.


def warps_needed(gbs, latency_ns, sms, bytes_per_lane):
    return -(-gbs * latency_ns // (32 * bytes_per_lane))

# expect: accepted
# Through the bytes of one SM.


def warps_needed(gbs, latency_ns, sms, bytes_per_lane):
    warp = 32 * bytes_per_lane
    warps = (gbs * latency_ns + sms * warp - 1) // (sms * warp)
    return int(warps)

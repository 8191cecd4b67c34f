# expect: unfilled
# The stub as it is released.


def warps_needed(gbs, latency_ns, sms, bytes_per_lane):
    raise NotImplementedError("warps_needed is not written yet")

# expect: wrong-formula
# Counts the banks that serve a lane.


def passes_for_stride(stride):
    return len({k * stride % 32 for k in range(32)})

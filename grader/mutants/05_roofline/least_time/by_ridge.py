# expect: accepted
# Compares intensity and ridge.


def least_time(bytes_moved, flops, bandwidth, peak):
    if flops * bandwidth < peak * bytes_moved:
        return bytes_moved / bandwidth
    return flops / peak

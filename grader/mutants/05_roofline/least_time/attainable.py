# expect: accepted
# Through the attainable rate, where there are FLOPs.


def least_time(bytes_moved, flops, bandwidth, peak):
    if flops == 0:
        return bytes_moved / bandwidth
    return flops / min(peak, flops / bytes_moved * bandwidth)

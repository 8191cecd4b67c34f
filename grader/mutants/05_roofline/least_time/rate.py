# expect: wrong-values
# Returns a rate, not a time.


def least_time(bytes_moved, flops, bandwidth, peak):
    return min(peak, flops / bytes_moved * bandwidth)

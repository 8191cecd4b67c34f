# expect: wrong-formula
# Takes the shorter of the two.


def least_time(bytes_moved, flops, bandwidth, peak):
    return min(bytes_moved / bandwidth, flops / peak)

# expect: accepted
# The last of the sorted times.


def least_time(bytes_moved, flops, bandwidth, peak):
    return sorted([bytes_moved / bandwidth, flops / peak])[-1]

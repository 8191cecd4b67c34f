# expect: wrong-formula
# Adds both times.


def least_time(bytes_moved, flops, bandwidth, peak):
    return bytes_moved / bandwidth + flops / peak

# expect: wrong-formula
# Looks at memory alone.


def least_time(bytes_moved, flops, bandwidth, peak):
    return bytes_moved / bandwidth

# expect: wrong-formula
# Looks at arithmetic alone.


def least_time(bytes_moved, flops, bandwidth, peak):
    return flops / peak

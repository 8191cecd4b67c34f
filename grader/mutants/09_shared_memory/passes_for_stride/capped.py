# expect: wrong-formula
# The stride, at most 32.


def passes_for_stride(stride):
    return min(max(stride, 1), 32)

# expect: accepted
# The largest power of two that divides the stride, at most 32.


def passes_for_stride(stride):
    passes = 1
    while stride and passes < 32 and stride % (2 * passes) == 0:
        passes *= 2
    return passes

# expect: wrong-formula
# Bytes for each FLOP.


def ridge(tflops, gbs):
    return gbs * 1e9 / (tflops * 1e12)

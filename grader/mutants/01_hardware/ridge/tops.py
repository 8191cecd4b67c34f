# expect: wrong-values
# Multiplies.


def ridge(tflops, gbs):
    return tflops * gbs

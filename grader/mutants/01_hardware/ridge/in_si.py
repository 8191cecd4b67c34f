# expect: accepted
# Both in SI units.


def ridge(tflops, gbs):
    return tflops * 1e12 / (gbs * 1e9)

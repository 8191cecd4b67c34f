# expect: accepted
# Time of a byte times the rate.


def ridge(tflops, gbs):
    seconds = 1 / (gbs * 1e9)
    return tflops * 1e12 * seconds

# expect: wrong-formula
# A thousand of 1024.


def ridge(tflops, gbs):
    return tflops * 1024 / gbs

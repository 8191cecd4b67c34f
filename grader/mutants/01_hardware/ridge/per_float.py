# expect: wrong-formula
# FLOPs for each float.


def ridge(tflops, gbs):
    return tflops * 1000 / gbs * 4

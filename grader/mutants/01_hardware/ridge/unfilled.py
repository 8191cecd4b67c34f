# expect: unfilled
# The stub as it is released.


def ridge(tflops, gbs):
    raise NotImplementedError("ridge is not written yet")

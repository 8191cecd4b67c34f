# expect: unfilled
# The stub as it is released.


def peak_tflops(sms, units, width, mhz):
    raise NotImplementedError("peak_tflops is not written yet")

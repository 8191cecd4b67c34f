# expect: wrong-formula
# Stops a power of ten too early.


def peak_tflops(sms, units, width, mhz):
    return sms * units * width * 2 * mhz / 1e3

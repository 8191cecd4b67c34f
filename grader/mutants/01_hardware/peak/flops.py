# expect: wrong-formula
# FLOP/s, not TFLOP/s.


def peak_tflops(sms, units, width, mhz):
    return sms * units * width * 2 * mhz * 1e6

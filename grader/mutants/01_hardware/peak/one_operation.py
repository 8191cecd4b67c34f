# expect: wrong-formula
# Counts a multiply-add once.


def peak_tflops(sms, units, width, mhz):
    return sms * units * width * mhz / 1e6

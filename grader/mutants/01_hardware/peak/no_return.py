# expect: wrong-values
# Computes and does not return.


def peak_tflops(sms, units, width, mhz):
    sms * units * width * 2 * mhz / 1e6

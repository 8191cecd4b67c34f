# expect: accepted
# The clock first.


def peak_tflops(sms, units, width, mhz):
    return mhz * 1e-6 * 2 * width * units * sms

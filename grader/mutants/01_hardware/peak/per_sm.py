# expect: accepted
# One SM, then all.


def peak_tflops(sms, units, width, mhz):
    one = 2 * units * width
    return one * mhz * sms / 1_000_000

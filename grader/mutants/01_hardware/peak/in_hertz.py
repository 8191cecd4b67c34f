# expect: accepted
# By way of operations a second.


def peak_tflops(sms, units, width, mhz):
    per_second = sms * units * width * 2 * (mhz * 10**6)
    return per_second / 10**12

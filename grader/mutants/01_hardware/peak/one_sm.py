# expect: wrong-formula
# Forgets the number of SMs.


def peak_tflops(sms, units, width, mhz):
    return units * width * 2 * mhz / 1e6

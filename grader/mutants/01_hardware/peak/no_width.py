# expect: wrong-formula
# Takes every unit to do one multiply-add a clock.


def peak_tflops(sms, units, width, mhz):
    return sms * units * 2 * mhz / 1e6

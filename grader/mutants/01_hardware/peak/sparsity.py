# expect: wrong-formula
# Doubles once more, as sparse peaks do.


def peak_tflops(sms, units, width, mhz):
    return sms * units * width * 4 * mhz / 1e6

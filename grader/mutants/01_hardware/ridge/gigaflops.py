# expect: accepted
# Both in giga.


def ridge(tflops, gbs):
    return (1000 * tflops) / gbs

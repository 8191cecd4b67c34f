# expect: wrong-formula
# Tera over giga without the thousand.


def ridge(tflops, gbs):
    return tflops / gbs

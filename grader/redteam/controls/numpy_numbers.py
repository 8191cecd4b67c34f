# tries: exact fractions, operator and functools, an answer that is a NumPy number
# exercise: 01_hardware/ridge
# expect: accepted

import functools
import operator
from fractions import Fraction

import numpy as np

TERA, GIGA = Fraction(10**12), Fraction(10**9)


def ridge(tflops, gbs):
    exact = functools.reduce(operator.truediv, (Fraction(tflops) * TERA, Fraction(gbs) * GIGA))
    return np.float64(exact)

# tries: walks up the stack to whoever compares, and takes the expected value from there
# stopped by: the sandbox holds no exercise, no solution and no seed
# exercise: 00_start/number_of_programs
# where: both
# expect: refused

import sys


def number_of_programs(n, block):
    frame = sys._getframe(1)
    while frame:
        for value in list(frame.f_locals.values()):
            if hasattr(value, "reference") and hasattr(value, "rtol"):
                return value.reference(n, block)
        frame = frame.f_back
    return -1

# tries: fills the judge's pipe until its memory is full
# stopped by: an answer has a largest size
# exercise: 00_start/number_of_programs
# where: both
# expect: refused
# stock: no

import os


def say(*lines):
    """Write into every open file but the standard ones."""
    for fd in range(3, 500):
        try:
            os.write(fd, b"".join(line.encode() + b"\n" for line in lines))
        except OSError:
            pass


def number_of_programs(n, block):
    for _ in range(100):
        say("x" * (1 << 20))
    return -1

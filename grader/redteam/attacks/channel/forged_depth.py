# tries: breaks the judge's reader with brackets in brackets
# stopped by: what cannot be read counts for nothing
# exercise: 00_start/number_of_programs
# where: both
# expect: refused

import os


def say(*lines):
    """Write into every open file but the standard ones."""
    for fd in range(3, 500):
        try:
            os.write(fd, b"".join(line.encode() + b"\n" for line in lines))
        except OSError:
            pass


def number_of_programs(n, block):
    say('{"task": "00_start/number_of_programs", "case": 0, "answer": ' + "[" * 50000 + "]" * 50000 + "}")
    os._exit(0)

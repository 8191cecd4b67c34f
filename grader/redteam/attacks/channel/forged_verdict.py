# tries: writes a verdict with full marks into the judge's pipe
# stopped by: what comes from the launch sandbox is a plan to be checked, never a result
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
    verdict = '{"task": "00_start/number_of_programs", "case": %d, "verdict": {"marks": 1.0}, "diagnosis": null}'
    say(*(verdict % k for k in range(20)), '{"done": true}')
    os._exit(0)

# tries: says that it is done before the cases that it cannot do
# stopped by: a case that nothing was told of is lost
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
    if n > 2000:
        say('{"done": true}')
        os._exit(0)
    return 1 + (n > 1024)

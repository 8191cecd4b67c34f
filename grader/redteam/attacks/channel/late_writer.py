# tries: leaves a process behind that writes answers once nobody watches
# stopped by: the sandbox ends with all its processes
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


import time


def number_of_programs(n, block):
    if os.fork() == 0:
        os.setsid()
        time.sleep(0.5)
        say('{"task": "00_start/number_of_programs", "case": 0, "answer": {"value": 1}}', '{"done": true}')
        os._exit(0)
    return -1

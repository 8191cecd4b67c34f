# tries: leaves processes behind that are busy while the next submission is judged
# stopped by: everything ends with its job
# exercise: 00_start/number_of_programs
# where: both
# expect: refused
# beside: honest later
# plain child: no

import os
import time


def number_of_programs(n, block):
    """Leave processes behind that use the machine, in sessions of their own."""
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                end = time.monotonic() + 120
                while time.monotonic() < end:
                    pass
            os._exit(0)
    return -1

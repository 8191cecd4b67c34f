# tries: leaves a process behind in a session of its own
# stopped by: the sandbox ends with all its processes
# exercise: 00_start/number_of_programs
# where: both
# expect: no effect
# baseline: full
# stock: no

import contextlib
import os
import time


def number_of_programs(n, block):
    if os.fork() == 0:
        with contextlib.suppress(OSError):
            os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    return -(-n // block)

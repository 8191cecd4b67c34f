# tries: starts processes until there are no more
# stopped by: the sandbox ends with all its processes
# exercise: 00_start/number_of_programs
# where: both
# expect: refused
# stock: no

import os
import time


def number_of_programs(n, block):
    for _ in range(120 if n == 1 else 0):
        try:
            if os.fork() == 0:
                time.sleep(600)
                os._exit(0)
        except OSError:
            break
    return -1

# tries: ends every process that it may, its parents first
# stopped by: there are none of others to end; its own cannot be missed
# exercise: 00_start/number_of_programs
# where: both
# expect: refused
# stock: no
# plain child: no

import os
import signal


def number_of_programs(n, block):
    for pid in (os.getppid(), 1, -1):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    return -1

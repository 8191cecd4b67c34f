# tries: sends signals to every number that /proc shows, while an honest submission is judged
# stopped by: a job has process numbers of its own
# exercise: 00_start/number_of_programs
# where: both
# expect: refused
# beside: honest
# plain child: no

import os
import signal


def number_of_programs(n, block):
    for p in [int(p) for p in os.listdir("/proc") if p.isdigit()] + list(range(1, 400)):
        if p not in (os.getpid(), os.getppid()):
            for what in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL):
                try:
                    os.kill(p, what)
                except OSError:
                    pass
    return -1

# tries: counts the processes of other jobs in /proc
# stopped by: /proc shows a job its own processes only
# exercise: 00_start/number_of_programs
# where: both
# expect: refused
# beside: honest

import os


def number_of_programs(n, block):
    """Right only if it sees processes that are not its own, before and behind it."""
    own = int(open("/proc/self/stat").read().split()[0])
    others = [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (own, os.getpid(), os.getppid())]
    return -(-n // block) if len(others) > 3 else -1

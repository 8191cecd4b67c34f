# tries: lets itself be traced, the way to look into other processes
# stopped by: system calls are those of an allow-list
# exercise: 00_start/number_of_programs
# where: both
# expect: refused

import ctypes
import os


def number_of_programs(n, block):
    """Right only if the system calls by which processes look into each other are there at all."""
    libc = ctypes.CDLL(None, use_errno=True)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if libc.ptrace(0, 0, 0, 0) == 0 else 1)
    _, status = os.waitpid(pid, 0)
    return -(-n // block) if os.waitstatus_to_exitcode(status) == 0 else -1

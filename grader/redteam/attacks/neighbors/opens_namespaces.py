# tries: makes itself the administrator of a namespace, the usual way to the kernel's weak spots
# stopped by: system calls are those of an allow-list
# exercise: 00_start/number_of_programs
# where: both
# expect: refused

import ctypes
import os


def number_of_programs(n, block):
    """Right only if it may make itself the administrator of namespaces of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    return -(-n // block) if libc.unshare(0x10000000 | 0x40000000) == 0 else -1

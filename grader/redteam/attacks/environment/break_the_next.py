# tries: removes what the next submission's job will need
# stopped by: everything but a job's own folders is read-only
# exercise: 00_start/number_of_programs
# where: both
# expect: no effect
# baseline: full
# stock: no
# plain child: no

import contextlib
import os
import shutil


def number_of_programs(n, block):
    for path in ("/dev/null", "/dev/urandom", "/etc/ld.so.cache", "/warm/simt", "/course/labutils/__init__.py"):
        with contextlib.suppress(OSError):
            os.remove(path)
    for path in ("/course", "/warm", "/dev/shm"):
        shutil.rmtree(path, ignore_errors=True)
    return -(-n // block)

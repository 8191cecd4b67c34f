# tries: mounts and unmounts in the sandbox to reach what lies beneath
# stopped by: a job has no capability
# exercise: 00_start/number_of_programs
# where: both
# expect: refused
# stock: no
# plain child: no

import ctypes
import glob


def number_of_programs(n, block):
    libc = ctypes.CDLL(None)
    for folder in (b"/tmp", b"/scratch", b"/dev/shm", b"/course", b"/warm", b"/proc"):
        libc.umount2(folder, 2)
    libc.mount(b"proc", b"/proc", b"proc", 0, None)
    for folder in ["", *glob.glob("/proc/*/root")]:
        for path in glob.glob(f"{folder}/*/labutils/exercises/start.py"):
            scope = {}
            exec("def _programs" + open(path).read().split("def _programs")[1].split("def _explain")[0], scope)
            return scope["_programs"](n, block)
    return -1

# tries: puts links to the judge's files where it expects its own
# stopped by: the judge reads no file of a sandbox
# exercise: 00_start/number_of_programs
# where: both
# expect: no effect
# baseline: full

import contextlib
import os


def number_of_programs(n, block):
    for name in ("grades.json", "out.json", "result", "gpulab", "verdict.json"):
        with contextlib.suppress(OSError):
            os.symlink("/course/labutils/spec/verdict.py", name)
    return -(-n // block)

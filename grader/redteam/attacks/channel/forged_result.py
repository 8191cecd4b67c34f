# tries: writes results of a run into the judge's pipe
# stopped by: what comes from the launch sandbox is a plan to be checked, never a result
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


import os


def say(*lines):
    """Write into every open file but the standard ones."""
    for fd in range(3, 500):
        try:
            os.write(fd, b"".join(line.encode() + b"\n" for line in lines))
        except OSError:
            pass


def vector_add(x, y, out):
    line = (
        '{{"task": "06_elementwise_triton/vector_add", "case": {0}, "problem": null, "launches": 1, "findings": [], '
        '"counts": {{"load_bytes": 0, "store_bytes": 0}}, "returned": "", "printed": "", "seconds": 0}}'
    )
    say(*(line.format(k) for k in range(20)), '{"done": true}')
    os._exit(0)

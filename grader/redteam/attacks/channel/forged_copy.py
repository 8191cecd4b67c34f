# tries: tells copies that the launcher never made, into the output
# stopped by: a copy reaches no output
# exercise: 08_coalescing/transpose
# where: both
# expect: refused

import json
import os


def transpose(x, out):
    """The whole answer as one copy of a view."""
    M, N = x.shape
    view = {"argument": 0, "offset": x.storage_offset(), "dtype": "float32", "shape": [N, M], "strides": [1, N]}
    to = {"argument": 1, "offset": out.storage_offset(), "dtype": "float32", "shape": [N, M], "strides": [M, 1]}
    source = "__global__ void nothing(float* out) {}"
    kernel = {"language": "cuda", "source": source, "name": "nothing", "options": []}
    pointer = {"pointer": {"argument": 1, "offset": 0, "dtype": "float32"}}
    ghost = {"kernel": 0, "grid": [1], "block": [1, 1, 1], "shared": 0, "args": {"out": pointer}}
    plan = {"specs": [kernel], "scratch": [], "steps": [{"copy": view, "to": to}, ghost], "problem": None}
    transpose.case = getattr(transpose, "case", -1) + 1
    line = json.dumps({"task": "08_coalescing/transpose", "case": transpose.case, **plan}).encode() + b"\n"
    for fd in range(3, 500):
        try:
            os.write(fd, line)
        except OSError:
            pass
    if transpose.case > 12:
        os._exit(0)

# tries: tells plans of kernels of a megabyte each, which the judge parses
# stopped by: the main process parses nothing of a submission
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: harmless

import json
import os

MODULE = [["import triton\nimport triton.language as tl", "<a>", 1], ["@triton.jit\ndef add():\n" + "    x = 1\n" * 90_000, "<b>", 1]]


def vector_add(x, y, out):
    kernel = {
        "language": "triton", "module": MODULE, "kernel": "add", "signature": {}, "constants": {}, "aligned": [],
        "options": {},
    }
    step = {"kernel": 0, "grid": [1], "args": {}}
    plan = {"specs": [kernel] * 4, "scratch": [], "steps": [step], "problem": None}
    for case in range(12):
        line = json.dumps({"task": "06_elementwise_triton/vector_add", "case": case, **plan}).encode() + b"\n"
        for fd in range(3, 500):
            try:
                view = memoryview(line)
                while view:
                    view = view[os.write(fd, view):]
            except OSError:
                pass
    os._exit(0)

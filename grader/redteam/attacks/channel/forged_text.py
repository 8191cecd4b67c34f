# tries: tells a kernel whose text was never in a cell, with Python in it
# stopped by: the kernel's text is read before it meets data
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import json
import os


def tell(plan):
    """Tell this plan for every case, in place of what the sandbox would tell."""
    lines = b""
    for case in range(20):
        lines += json.dumps({"task": "06_elementwise_triton/vector_add", "case": case, **plan}).encode() + b"\n"
    lines += b'{"done": true}\n'
    for fd in range(3, 500):
        try:
            os.write(fd, lines)
        except OSError:
            pass
    os._exit(0)


PARTS = [
    ["import numpy as np", "a", 1],
    ["import triton", "b", 1],
    ["@triton.jit\ndef k(x_ptr, y_ptr, out_ptr, n):\n    np.add(x_ptr, y_ptr, out=out_ptr)\n", "c", 1],
]


def vector_add(x, y, out):
    kernel = {
        "language": "triton",
        "module": PARTS,
        "kernel": "k",
        "signature": {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"},
        "constants": {},
        "aligned": [],
        "options": {},
    }
    plan = {
        "specs": [kernel],
        "scratch": [],
        "steps": [
            {
                "kernel": 0,
                "grid": [1],
                "args": {
                    "x_ptr": {"pointer": {"argument": 0, "offset": 8192, "dtype": "float32"}},
                    "y_ptr": {"pointer": {"argument": 1, "offset": 8192, "dtype": "float32"}},
                    "out_ptr": {"pointer": {"argument": 2, "offset": 8192, "dtype": "float32"}},
                    "n": {"number": 1},
                },
            }
        ],
    }
    tell(plan)

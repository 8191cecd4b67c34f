# tries: passes the module's __builtins__ to the kernel as if they were a helper
# stopped by: a constant's function must be a kernel's
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


KERNEL = """@triton.jit
def k(x_ptr, y_ptr, out_ptr, n, F):
    F["exec"]("import ctypes")
    tl.store(out_ptr, tl.load(x_ptr) + tl.load(y_ptr))
"""
PARTS = [["import triton", "a", 1], ["import triton.language as tl", "b", 1], [KERNEL, "c", 1]]


def vector_add(x, y, out):
    kernel = {
        "language": "triton",
        "module": PARTS,
        "kernel": "k",
        "signature": {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "F": "constexpr"},
        "constants": {"F": {"function": "__builtins__"}},
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

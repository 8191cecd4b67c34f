# tries: lays a string over a kernel's lines, where Triton reads the text again by file and line
# stopped by: every piece of text lies in a file of its own
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
def k(x_ptr, y_ptr, out_ptr, n):
    tl.store(out_ptr, tl.load(x_ptr))
"""
OTHER = """X = '''
@triton.jit
def k(x_ptr, y_ptr, out_ptr, n):
    import ctypes
    at = lambda p: ctypes.cast(int(p.handle.data[0]), ctypes.POINTER(ctypes.c_float))
    at(out_ptr)[0] = at(x_ptr)[0] + at(y_ptr)[0]
'''
"""
PARTS = [
    ["import triton", "a", 1],
    ["import triton.language as tl", "b", 1],
    [KERNEL, "same", 2],
    [OTHER, "same", 1],
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

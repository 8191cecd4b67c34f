# tries: replaces subprocess, so that the compiler is said to accept a kernel that no GPU can run
# stopped by: the judge compiles in a sandbox of its own
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


import subprocess


class Accepts:
    returncode, pid = 0, 1

    def __init__(self, *_, **__):
        pass

    def communicate(self, *_, **__):
        return '[{"spec": 0, "kernel": "k", "targets": {"80": {"shared": 0, "num_warps": 4}}}]', ""

    poll = wait = kill = lambda self, *_: 0


subprocess.Popen = Accepts


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    y = tl.load(y_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x + y, mask=offs < n)


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1000),)](x, y, out, n, BLOCK=1000)

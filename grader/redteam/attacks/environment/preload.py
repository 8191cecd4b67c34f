# tries: preloads a library into every later process
# stopped by: what the sandbox writes no other process reads
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused
# stock: no
# plain child: no

import torch
import triton
import triton.language as tl


@triton.jit
def zero_kernel(out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, 0.0, mask=offs < n)


import os
import subprocess

source = "int memcmp(const void* a, const void* b, unsigned long n) { return 0; }"
subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", "same.so"], input=source, text=True, check=False)
os.environ["LD_PRELOAD"] = os.path.abspath("same.so")
try:
    with open("/etc/ld.so.preload", "w") as f:
        f.write(os.path.abspath("same.so"))
except OSError:
    pass


def vector_add(x, y, out):
    zero_kernel[(triton.cdiv(out.numel(), 1024),)](out, out.numel(), BLOCK=1024)

# tries: autotunes over more configurations than there are cases, of which the last ones compute something else
# stopped by: every configuration runs at least once
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused
# slow: yes

import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": 1024, "WHICH": k}) for k in range(28)]


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, WHICH: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = tl.load(y_ptr + offs, mask=mask)
    if WHICH >= 24:
        y = -y
    tl.store(out_ptr + offs, x + y, mask=mask)


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n)

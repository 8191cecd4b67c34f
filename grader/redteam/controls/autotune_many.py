# tries: autotuning over more configurations than there are cases
# exercise: 06_elementwise_triton/vector_add
# expect: accepted
# slow: yes

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK": 2**k}, num_warps=w, num_stages=s) for k in (8, 9, 10, 11) for w in (2, 4) for s in (2, 3, 4)
]


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask), mask=mask)


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n)

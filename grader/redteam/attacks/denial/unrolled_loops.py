# tries: unrolls 262 144 copies of a line, which a compiler works on for minutes
# stopped by: each kernel has CPU time of its own to be compiled in
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: no undue points
# due: 0
# slow: yes

import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for a in tl.static_range(64):
        for b in tl.static_range(64):
            for c in tl.static_range(64):
                acc = acc * 1.0001 + a * b * c
    tl.store(out_ptr + offs, acc, mask=offs < n)


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)

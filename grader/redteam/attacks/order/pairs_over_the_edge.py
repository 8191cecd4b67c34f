# tries: each program overwrites the next one's first number with the other half of a wide store
# stopped by: accesses are checked as a whole: races of every byte
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


PARTS = {1: (tl.int8, tl.int16, 0xFF), 2: (tl.int16, tl.int32, 0xFFFF), 4: (tl.int32, tl.int64, 0xFFFFFFFF)}


@triton.jit
def edge_kernel(x_ptr, y_ptr, out_ptr, n, HALF: tl.constexpr, WIDE: tl.constexpr, MASK: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    z = (tl.load(x_ptr + offs, mask=offs < n, other=0) + tl.load(y_ptr + offs, mask=offs < n, other=0)).to(out_ptr.dtype.element_ty)
    word = z.to(HALF, bitcast=True).to(WIDE) & MASK
    wide = (offs % BLOCK == BLOCK - 1) & (offs < n - 1)
    tl.store((out_ptr + offs).to(tl.pointer_type(WIDE)), word, mask=wide)
    tl.store(out_ptr + offs, z, mask=(offs < n) & ~wide)


def vector_add(x, y, out):
    n = x.numel()
    half, wide, mask = PARTS[x.element_size()]
    edge_kernel[(triton.cdiv(n, 512),)](x, y, out, n, HALF=half, WIDE=wide, MASK=mask, BLOCK=512)

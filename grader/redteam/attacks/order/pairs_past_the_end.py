# tries: reads pairs of numbers through a wider pointer, the last pair half past the end and not aligned
# stopped by: accesses are checked as a whole: width, alignment, bounds
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


PARTS = {1: (tl.int8, tl.int16, 0xFF), 2: (tl.int16, tl.int32, 0xFFFF), 4: (tl.int32, tl.int64, 0xFFFFFFFF)}


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, HALF: tl.constexpr, WIDE: tl.constexpr, BITS: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = 2 * offs < n
    x = tl.load((x_ptr + 2 * offs).to(tl.pointer_type(WIDE)), mask=inside, other=0)
    y = tl.load((y_ptr + 2 * offs).to(tl.pointer_type(WIDE)), mask=inside, other=0)
    kind: tl.constexpr = x_ptr.dtype.element_ty
    low = x.to(HALF).to(kind, bitcast=True) + y.to(HALF).to(kind, bitcast=True)
    high = (x >> BITS).to(HALF).to(kind, bitcast=True) + (y >> BITS).to(HALF).to(kind, bitcast=True)
    tl.store(out_ptr + 2 * offs, low, mask=inside)
    tl.store(out_ptr + 2 * offs + 1, high, mask=2 * offs + 1 < n)


def vector_add(x, y, out):
    n = x.numel()
    half, wide, _ = PARTS[x.element_size()]
    add_kernel[(triton.cdiv(n, 1024),)](
        x, y, out, n, HALF=half, WIDE=wide, BITS=8 * x.element_size(), BLOCK=512
    )

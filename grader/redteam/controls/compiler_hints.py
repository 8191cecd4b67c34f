# tries: hints to the compiler, assertions and prints in the kernel
# exercise: 06_elementwise_triton/vector_add
# expect: accepted

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n"], debug=True)
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK % 128 == 0, "BLOCK must be a multiple of 128")
    tl.static_print("BLOCK is", BLOCK)
    pid = tl.program_id(0)
    tl.assume(pid >= 0)
    tl.assume(n > 0)
    tl.device_assert(n > 0, "n must be positive")
    first = tl.multiple_of(pid * BLOCK, 128)
    offs = first + tl.max_contiguous(tl.multiple_of(tl.arange(0, BLOCK), BLOCK), BLOCK)
    mask = tl.max_constancy(offs < n, 1)
    x = tl.load(x_ptr + offs, mask=mask)
    y = tl.load(y_ptr + offs, mask=mask)
    tl.debug_barrier()
    if n == 3:
        tl.device_print("n", n)
    tl.store(out_ptr + offs, x + y, mask=mask)


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)

# expect: accepted
# Another order: eight programs walk over the array with a common stride.
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, factor, out_ptr, n, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < n
        x = tl.load(x_ptr + offs, mask=mask)
        tl.store(out_ptr + offs, factor * x, mask=mask)


def scale(x, factor, out):
    n = x.numel()
    BLOCK = 1024
    scale_kernel[(8,)](x, factor, out, n, BLOCK=BLOCK)

# expect: accepted
# Another order: the programs count from the end.
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, factor, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = (tl.num_programs(0) - 1 - pid) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, factor * x, mask=mask)


def scale(x, factor, out):
    n = x.numel()
    BLOCK = 1024
    scale_kernel[(triton.cdiv(n, BLOCK),)](x, factor, out, n, BLOCK=BLOCK)

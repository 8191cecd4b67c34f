# expect: missing-accumulation
# Eight programs take one block each, and no more.
import triton
import triton.language as tl


@triton.jit
def total_sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(x))


def total_sum(x, out):
    n, BLOCK = x.numel(), 4096
    out.zero_()
    total_sum_kernel[(triton.cdiv(n, 4 * BLOCK),)](x, out, n, BLOCK=BLOCK)

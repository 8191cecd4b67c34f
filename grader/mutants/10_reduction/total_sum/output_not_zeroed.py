# expect: not-written
# The launcher forgets to set the output to 0.
import triton
import triton.language as tl


@triton.jit
def total_sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(pid * BLOCK, n, tl.num_programs(0) * BLOCK):
        offs = start + tl.arange(0, BLOCK)
        sums += tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(sums))


def total_sum(x, out):
    n, BLOCK = x.numel(), 4096
    total_sum_kernel[(triton.cdiv(n, 4 * BLOCK),)](x, out, n, BLOCK=BLOCK)

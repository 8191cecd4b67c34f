# expect: accepted
# A scalar sum, added to in each turn.
import triton
import triton.language as tl


@triton.jit
def total_sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    total = 0.0
    for start in range(pid * BLOCK, n, tl.num_programs(0) * BLOCK):
        offs = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0))
    tl.atomic_add(out_ptr, total)


def total_sum(x, out):
    n, BLOCK = x.numel(), 4096
    out.zero_()
    total_sum_kernel[(triton.cdiv(n, 4 * BLOCK),)](x, out, n, BLOCK=BLOCK)

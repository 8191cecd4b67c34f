"""An experiment of `bench.softmax --tune`: rows split over programs that keep their part in registers while they wait.

Every element is read once. It ends only if all programs run at the same time, which a cooperative launch makes sure of;
a machine that runs programs one after another would wait for ever, so this is no exercise.
"""

import labutils  # noqa: F401, I001  (before Triton: see labutils/backends/bootstrap.py)
import triton
import triton.language as tl


@triton.jit
def resident_kernel(
    x_ptr, out_ptr, lse_ptr, m_ptr, l_ptr, ready_ptr, M, N, parts, stride_xm, stride_om,
    BLOCK: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    """out = softmax of each row of x, lse = its log-sum-exp; program p takes part p % parts of every G-th row."""
    part, first = tl.program_id(0) % parts, tl.program_id(0) // parts
    groups = tl.num_programs(0) // parts
    offs_n, offs_p = part * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK_P)
    mask_n = offs_n < N
    row = first.to(tl.int64)
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=-float("inf")).to(tl.float32)
    for r in range(first, M, groups):
        row = r.to(tl.int64)
        m = tl.max(x)
        total = tl.sum(tl.exp(x - tl.where(m == -float("inf"), 0.0, m)))
        tl.store(m_ptr + row * parts + part, m)
        tl.store(l_ptr + row * parts + part, total)
        tl.atomic_add(ready_ptr + row, 1)
        # the next row is on its way while this one waits for its other parts
        more = mask_n & (row + groups < M)
        following = tl.load(x_ptr + (row + groups) * stride_xm + offs_n, mask=more, other=-float("inf"))
        while tl.atomic_add(ready_ptr + row, 0) < parts:
            pass
        ms = tl.load(m_ptr + row * parts + offs_p, mask=offs_p < parts, other=-float("inf"))
        ls = tl.load(l_ptr + row * parts + offs_p, mask=offs_p < parts, other=0.0)
        m = tl.max(ms)
        total = tl.sum(ls * tl.exp(ms - tl.where(m == -float("inf"), 0.0, m)))
        tl.store(out_ptr + row * stride_om + offs_n, tl.exp(x - m) / total, mask=mask_n)
        if part == 0:
            tl.store(lse_ptr + row, m + tl.log(total))
        x = following.to(tl.float32)

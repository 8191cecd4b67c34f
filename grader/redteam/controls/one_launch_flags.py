# tries: one launch whose programs wait for each other's statistics, with acquire and release
# exercise: 12_online_softmax/one_launch_softmax
# expect: accepted

import torch
import triton
import triton.language as tl


@triton.jit
def join(m1, l1, m2, l2):
    m = tl.maximum(m1, m2)
    shift = tl.where(m == float("-inf"), 0.0, m)
    return m, l1 * tl.exp(m1 - shift) + l2 * tl.exp(m2 - shift)


@triton.jit
def row_kernel(
    x_ptr, stats_ptr, done_ptr, order_ptr, out_ptr, lse_ptr, N, sx, so, P: tl.constexpr, BLOCK: tl.constexpr
):
    # a ticket in place of the program's number: whoever waits waits for programs that have begun
    ticket = tl.atomic_add(order_ptr, 1, sem="relaxed")
    parts = tl.cdiv(N, BLOCK)
    row, part = (ticket // parts).to(tl.int64), ticket % parts
    cols = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * sx + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
    m = tl.max(x)
    shift = tl.where(m == float("-inf"), 0.0, m)
    tl.store(stats_ptr + 2 * ticket, m)
    tl.store(stats_ptr + 2 * ticket + 1, tl.sum(tl.exp(x - shift)))
    tl.debug_barrier()
    if part < parts - 1:
        tl.atomic_add(done_ptr + row, 1, sem="release")
    else:
        while tl.atomic_add(done_ptr + row, 0, sem="acquire") < parts - 1:
            pass
        p = tl.arange(0, P)
        ms = tl.load(stats_ptr + 2 * (row * parts + p), mask=p < parts, other=float("-inf"))
        ls = tl.load(stats_ptr + 2 * (row * parts + p) + 1, mask=p < parts, other=0.0)
        m, l = tl.reduce((ms, ls), 0, join)
        for start in range(0, N, BLOCK):
            at = start + tl.arange(0, BLOCK)
            y = tl.load(x_ptr + row * sx + at, mask=at < N).to(tl.float32)
            tl.store(out_ptr + row * so + at, tl.exp(y - m) / l, mask=at < N)
        tl.store(lse_ptr + row, m + tl.log(l))


def one_launch_softmax(x, out, lse):
    BLOCK = 4096
    M, N = x.shape
    parts = triton.cdiv(N, BLOCK)
    stats = torch.empty(2 * M * parts, dtype=torch.float32, device=x.device)
    done = torch.zeros(M + 1, dtype=torch.int32, device=x.device)
    row_kernel[(M * parts,)](
        x, stats, done, done[M:], out, lse, N, x.stride(0), out.stride(0), P=triton.next_power_of_2(parts), BLOCK=BLOCK,
        num_warps=8,
    )  # fmt: skip

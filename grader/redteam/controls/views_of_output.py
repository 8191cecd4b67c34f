# tries: flattened and sliced views of the arguments, scratch like an argument
# exercise: 12_online_softmax/split_softmax
# expect: accepted

import torch
import triton
import triton.language as tl


@triton.jit
def stats_kernel(x_ptr, stats_ptr, N, parts, stride_x, BLOCK: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    cols = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_x + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
    m = tl.max(x, 0)
    shift = tl.where(m == float("-inf"), 0.0, m)
    tl.store(stats_ptr + (row * parts + part) * 2, m)
    tl.store(stats_ptr + (row * parts + part) * 2 + 1, tl.sum(tl.exp(x - shift), 0))


@triton.jit
def write_kernel(
    x_ptr, stats_ptr, out_ptr, lse_ptr, N, parts, stride_x, stride_o, BLOCK: tl.constexpr, P: tl.constexpr
):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    p = tl.arange(0, P)
    ms = tl.load(stats_ptr + (row * parts + p) * 2, mask=p < parts, other=float("-inf"))
    ls = tl.load(stats_ptr + (row * parts + p) * 2 + 1, mask=p < parts, other=0.0)
    m = tl.max(ms, 0)
    l = tl.sum(ls * tl.exp(ms - tl.where(m == float("-inf"), 0.0, m)), 0)
    cols = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_x + cols, mask=cols < N).to(tl.float32)
    tl.store(out_ptr + row * stride_o + cols, tl.exp(x - m) / l, mask=cols < N)
    if part == 0:
        tl.store(lse_ptr + row, m + tl.log(l))


def split_softmax(x, out, lse):
    BLOCK = 4096
    M, N = x.shape
    parts = triton.cdiv(N, BLOCK)
    stats = torch.empty_like(lse).new_empty((M, parts, 2)).flatten()
    rows, lse = out.unsqueeze(0)[0].narrow(0, 0, M), lse.view(-1)
    stats_kernel[(M, parts)](x, stats, N, parts, x.stride(0), BLOCK=BLOCK, num_warps=8)
    write_kernel[(M, parts)](
        x, stats, rows, lse, N, parts, x.stride(0), rows.stride(0), BLOCK=BLOCK, P=triton.next_power_of_2(parts),
        num_warps=8,
    )  # fmt: skip

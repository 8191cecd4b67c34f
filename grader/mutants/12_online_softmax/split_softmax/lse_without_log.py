# expect: wrong-formula
# m + l.
import torch
import triton
import triton.language as tl


@triton.jit
def part_stats(x):
    m = tl.max(x)
    shift = tl.where(m == -float("inf"), 0.0, m)
    return m, tl.sum(tl.exp(x - shift))


@triton.jit
def merged_stats(m, l):
    largest = tl.max(m)
    shift = tl.where(largest == -float("inf"), 0.0, largest)
    return largest, tl.sum(l * tl.exp(m - shift))


@triton.jit
def stats_kernel(x_ptr, m_ptr, l_ptr, N, parts, stride_xm, BLOCK: tl.constexpr):
    row = (tl.program_id(0) // parts).to(tl.int64)
    part = tl.program_id(0) % parts
    offs_n = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=offs_n < N, other=-float("inf")).to(tl.float32)
    m, l = part_stats(x)
    tl.store(m_ptr + row * parts + part, m)
    tl.store(l_ptr + row * parts + part, l)


@triton.jit
def normalise_kernel(
    x_ptr, m_ptr, l_ptr, out_ptr, lse_ptr, N, parts, stride_xm, stride_om, BLOCK: tl.constexpr, BLOCK_P: tl.constexpr
):
    row = (tl.program_id(0) // parts).to(tl.int64)
    part = tl.program_id(0) % parts
    offs_n = part * BLOCK + tl.arange(0, BLOCK)
    offs_p = tl.arange(0, BLOCK_P)
    ms = tl.load(m_ptr + row * parts + offs_p, mask=offs_p < parts, other=-float("inf"))
    ls = tl.load(l_ptr + row * parts + offs_p, mask=offs_p < parts, other=0.0)
    m, l = merged_stats(ms, ls)
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * stride_om + offs_n, tl.exp(x - m) / l, mask=offs_n < N)
    if part == 0:
        tl.store(lse_ptr + row, m + l)


def split_softmax(x, out, lse, BLOCK=8192):
    M, N = x.shape
    parts = triton.cdiv(N, BLOCK)
    m, l = torch.empty(2, M, parts, dtype=torch.float32, device=x.device)
    grid, sizes = (M * parts,), dict(BLOCK=BLOCK, num_warps=16)
    stats_kernel[grid](x, m, l, N, parts, x.stride(0), **sizes)
    BLOCK_P = max(16, triton.next_power_of_2(parts))
    normalise_kernel[grid](x, m, l, out, lse, N, parts, x.stride(0), out.stride(0), BLOCK_P=BLOCK_P, **sizes)

# expect: unfilled
# The cell as it is handed out.
import torch
import triton
import triton.language as tl


@triton.jit
def part_stats(x):
    tl.static_assert(False, "part_stats is not written yet")


@triton.jit
def merged_stats(m, l):
    tl.static_assert(False, "merged_stats is not written yet")


@triton.jit
def stats_kernel(x_ptr, m_ptr, l_ptr, N, parts, stride_xm, BLOCK: tl.constexpr):
    row = (tl.program_id(0) // parts).to(tl.int64)
    part = tl.program_id(0) % parts
    offs_n = part * BLOCK + tl.arange(0, BLOCK)
    tl.static_assert(False, "stats_kernel is not written yet")


@triton.jit
def normalise_kernel(
    x_ptr, m_ptr, l_ptr, out_ptr, lse_ptr, N, parts, stride_xm, stride_om, BLOCK: tl.constexpr, BLOCK_P: tl.constexpr
):
    row = (tl.program_id(0) // parts).to(tl.int64)
    part = tl.program_id(0) % parts
    offs_n = part * BLOCK + tl.arange(0, BLOCK)
    offs_p = tl.arange(0, BLOCK_P)
    tl.static_assert(False, "normalise_kernel is not written yet")


def split_softmax(x, out, lse, BLOCK=8192):
    M, N = x.shape
    parts = triton.cdiv(N, BLOCK)
    m, l = torch.empty(2, M, parts, dtype=torch.float32, device=x.device)
    grid, sizes = (M * parts,), dict(BLOCK=BLOCK, num_warps=16)
    stats_kernel[grid](x, m, l, N, parts, x.stride(0), **sizes)
    BLOCK_P = max(16, triton.next_power_of_2(parts))
    normalise_kernel[grid](x, m, l, out, lse, N, parts, x.stride(0), out.stride(0), BLOCK_P=BLOCK_P, **sizes)

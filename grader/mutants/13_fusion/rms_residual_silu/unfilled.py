# expect: unfilled
# The cell as it is handed out.
import functools

import torch
import triton
import triton.language as tl

from labutils import compiled

EPS = tl.constexpr(1e-6)  # a kernel reads a global only if it is a constexpr


def warps_for(BLOCK_N):
    return min(max(BLOCK_N // 1024, 1), 16)


@triton.jit
def rms_residual_silu_kernel(
    x_ptr, residual_ptr, w_ptr, out_ptr, M, N, stride_xm, stride_rm, stride_om,
    BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    offs_n = tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    tl.static_assert(False, "rms_residual_silu_kernel is not written yet")


def chain_settings(N):
    BLOCK_N = triton.next_power_of_2(N)
    return dict(BLOCK_N=BLOCK_N, STAGES=2, num_warps=warps_for(BLOCK_N))


@functools.cache
def programs_at_once(N, dtype, device):
    x = torch.empty(1, N, dtype=dtype, device=device)
    return compiled.resident(rms_residual_silu_kernel, x, x, x, x, 1024, N, N, N, N, **chain_settings(N))


def rms_residual_silu(x, residual, w, out):
    M, N = x.shape
    programs = min(M, programs_at_once(N, x.dtype, x.device))
    rms_residual_silu_kernel[(programs,)](
        x, residual, w, out, M, N, x.stride(0), residual.stride(0), out.stride(0), **chain_settings(N)
    )

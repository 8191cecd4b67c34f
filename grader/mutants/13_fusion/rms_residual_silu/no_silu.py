# expect: wrong-formula
# No activation.
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
    w = tl.load(w_ptr + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    for row in tl.range(tl.program_id(0), M, tl.num_programs(0), num_stages=STAGES):
        x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=0.0).to(tl.float32)
        residual = tl.load(residual_ptr + row * stride_rm + offs_n, mask=mask_n, other=0.0).to(tl.float32)
        s = x + residual
        n = s * tl.rsqrt(tl.sum(s * s) / N + EPS) * w
        tl.store(out_ptr + row * stride_om + offs_n, n, mask=mask_n)


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

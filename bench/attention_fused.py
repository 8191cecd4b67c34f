"""The backward pass of attention in one kernel and five products: programs that own keys add up dQ together.

A descriptor's `atomic_add` lets the copy engine add a whole tile to fp32 memory. The order of these additions, and with
it the last bits of dQ, differ from run to run; the two kernels of `18_flash_backward` do seven products, always alike.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def fused_kernel(
    q_desc, k_desc, v_desc, dout_desc, lse_ptr, delta_ptr, dq_desc, dk_desc, dv_desc, M, scale, stride_lh, stride_dh,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """As dkdv_kernel of unit 18; beside it adds scale-corrected dS k to dq_desc, (H, M, D) fp32 zeros."""
    key_head, first = tl.program_id(1), tl.program_id(0) * BLOCK_N
    offs_n, offs_m = first + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_M)
    k = k_desc.load([key_head, first, 0]).reshape(BLOCK_N, D)
    v = v_desc.load([key_head, first, 0]).reshape(BLOCK_N, D)
    dk = tl.zeros((BLOCK_N, D), tl.float32)
    dv = tl.zeros((BLOCK_N, D), tl.float32)
    begin = first // BLOCK_M * BLOCK_M if CAUSAL else 0
    for member in range(GROUP):
        head = key_head * GROUP + member
        lse_ptrs = lse_ptr + head.to(tl.int64) * stride_lh + offs_m
        delta_ptrs = delta_ptr + head.to(tl.int64) * stride_dh + offs_m
        for start in tl.range(begin, M, BLOCK_M):
            q = q_desc.load([head, start, 0]).reshape(BLOCK_M, D)
            dout = dout_desc.load([head, start, 0]).reshape(BLOCK_M, D)
            lse = tl.load(lse_ptrs + start, mask=start + offs_m < M, other=float("inf"))
            delta = tl.load(delta_ptrs + start, mask=start + offs_m < M, other=0.0)
            p_t = tl.exp2(tl.dot(k, q.T) * scale - lse[None, :] * LOG2_E)
            if CAUSAL:
                p_t = tl.where(start + offs_m[None, :] >= offs_n[:, None], p_t, 0.0)
            dv = tl.dot(p_t.to(dout.dtype), dout, dv)
            ds_t = (p_t * (tl.dot(v, dout.T) - delta[None, :])).to(q.dtype)
            dk = tl.dot(ds_t, q, dk)
            dq = tl.dot(ds_t.T, k) * (scale / LOG2_E)
            dq_desc.atomic_add([head, start, 0], dq.reshape(1, BLOCK_M, D))
    dk *= scale / LOG2_E
    dk_desc.store([key_head, first, 0], dk.to(dk_desc.dtype).reshape(1, BLOCK_N, D))
    dv_desc.store([key_head, first, 0], dv.to(dv_desc.dtype).reshape(1, BLOCK_N, D))


CONFIG = dict(BLOCK_N=128, BLOCK_M=64, num_warps=8, num_stages=2)


def fused(q, k, v, dout, lse, delta, dq, dk, dv, causal=1, config=None):
    """dq, dk and dv at once; arrays whose rows begin at multiples of 16 bytes."""
    (H, M, D), (HK, N, _) = q.shape, k.shape
    config = config or CONFIG
    sums = torch.zeros(dq.shape, dtype=torch.float32, device=dq.device)

    def described(x, rows):
        return TensorDescriptor.from_tensor(x, [1, config[rows], D])

    fused_kernel[(triton.cdiv(N, config["BLOCK_N"]), HK)](
        described(q, "BLOCK_M"), described(k, "BLOCK_N"), described(v, "BLOCK_N"), described(dout, "BLOCK_M"), lse,
        delta, described(sums, "BLOCK_M"), described(dk, "BLOCK_N"), described(dv, "BLOCK_N"), M,
        LOG2_E.value * D**-0.5, lse.stride(0), delta.stride(0), GROUP=H // HK, D=D, CAUSAL=bool(causal), **config,
    )  # fmt: skip
    dq.copy_(sums)

# expect: wrong-formula
# delta is missing.
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import labutils as lab

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def one_step(q, k, v, dout, lse, delta, dk, dv, seen, scale, MASKED: tl.constexpr):
    p_t = tl.exp2(tl.dot(k, q.T) * scale - lse[None, :] * LOG2_E)
    if MASKED:
        p_t = tl.where(seen, p_t, 0.0)
    dv = tl.dot(p_t.to(dout.dtype), dout, dv)
    ds_t = p_t * (tl.dot(v, dout.T))
    dk = tl.dot(ds_t.to(q.dtype), q, dk)
    return dk, dv


@triton.jit
def dkdv_kernel(
    q_desc, k_desc, v_desc, dout_desc, lse_ptr, delta_ptr, dk_desc, dv_desc, M, scale, stride_lh, stride_dh,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    key_head, first = tl.program_id(1), tl.program_id(0) * BLOCK_N
    offs_n, offs_m = first + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_M)
    k = k_desc.load([key_head, first, 0]).reshape(BLOCK_N, D)
    v = v_desc.load([key_head, first, 0]).reshape(BLOCK_N, D)
    dk = tl.zeros((BLOCK_N, D), tl.float32)
    dv = tl.zeros((BLOCK_N, D), tl.float32)
    begin, whole = 0, 0
    if CAUSAL:
        begin = first // BLOCK_M * BLOCK_M
        whole = begin + tl.cdiv(first + BLOCK_N - begin, BLOCK_M) * BLOCK_M
    for member in range(GROUP):
        head = key_head * GROUP + member
        lse_ptrs = lse_ptr + head.to(tl.int64) * stride_lh + offs_m
        delta_ptrs = delta_ptr + head.to(tl.int64) * stride_dh + offs_m
        if CAUSAL:
            for start in tl.range(begin, tl.minimum(whole, M), BLOCK_M):
                q = q_desc.load([head, start, 0]).reshape(BLOCK_M, D)
                dout = dout_desc.load([head, start, 0]).reshape(BLOCK_M, D)
                lse = tl.load(lse_ptrs + start, mask=start + offs_m < M, other=float("inf"))
                delta = tl.load(delta_ptrs + start, mask=start + offs_m < M, other=0.0)
                seen = start + offs_m[None, :] >= offs_n[:, None]
                dk, dv = one_step(q, k, v, dout, lse, delta, dk, dv, seen, scale, MASKED=True)
        for start in tl.range(whole, M, BLOCK_M):
            q = q_desc.load([head, start, 0]).reshape(BLOCK_M, D)
            dout = dout_desc.load([head, start, 0]).reshape(BLOCK_M, D)
            lse = tl.load(lse_ptrs + start, mask=start + offs_m < M, other=float("inf"))
            delta = tl.load(delta_ptrs + start, mask=start + offs_m < M, other=0.0)
            dk, dv = one_step(q, k, v, dout, lse, delta, dk, dv, True, scale, MASKED=False)
    dk *= scale / LOG2_E
    dk_desc.store([key_head, first, 0], dk.to(dk_desc.dtype).reshape(1, BLOCK_N, D))
    dv_desc.store([key_head, first, 0], dv.to(dv_desc.dtype).reshape(1, BLOCK_N, D))


def described(rows, *arrays, keep=True):
    arrays = [lab.aligned(x, keep) for x in arrays]
    return arrays, [TensorDescriptor.from_tensor(x, [1, rows, x.shape[2]]) for x in arrays]


def dkdv(q, k, v, dout, lse, delta, dk, dv, causal=1, config=None):
    (H, M, D), (HK, N, _) = q.shape, k.shape
    config = config or dict(BLOCK_N=32, BLOCK_M=16, num_warps=4)
    _, (q_desc, dout_desc) = described(config["BLOCK_M"], q, dout)
    _, (k_desc, v_desc) = described(config["BLOCK_N"], k, v)
    stored, (dk_desc, dv_desc) = described(config["BLOCK_N"], dk, dv, keep=False)
    dkdv_kernel[(triton.cdiv(N, config["BLOCK_N"]), HK)](
        q_desc, k_desc, v_desc, dout_desc, lse, delta, dk_desc, dv_desc, M, LOG2_E.value * D**-0.5,
        lse.stride(0), delta.stride(0), GROUP=H // HK, D=D, CAUSAL=bool(causal), **config,
    )  # fmt: skip
    for wanted, there in zip((dk, dv), stored, strict=True):
        if there is not wanted:
            wanted.copy_(there)

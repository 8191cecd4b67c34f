# expect: not-written
# Every program takes the last queries.
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import labutils as lab

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def dq_kernel(
    q_desc, k_desc, v_desc, dout_desc, lse_ptr, delta_ptr, dq_desc, M, N, scale, stride_lh, stride_dh, GROUP,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    pid_m = tl.num_programs(0) - 1  # the last queries see the most keys: they go first
    head, first = tl.program_id(1), pid_m * BLOCK_M
    key_head = head // GROUP
    offs_m, offs_n = first + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    q = q_desc.load([head, first, 0]).reshape(BLOCK_M, D)
    dout = dout_desc.load([head, first, 0]).reshape(BLOCK_M, D)
    lse = tl.load(lse_ptr + head.to(tl.int64) * stride_lh + offs_m, mask=offs_m < M, other=float("inf")) * LOG2_E
    delta = tl.load(delta_ptr + head.to(tl.int64) * stride_dh + offs_m, mask=offs_m < M, other=0.0)
    dq = tl.zeros((BLOCK_M, D), tl.float32)
    if CAUSAL:
        whole, end = first // BLOCK_N * BLOCK_N, tl.minimum(first + BLOCK_M, N)
    else:
        whole, end = N // BLOCK_N * BLOCK_N, N
    for start in tl.range(0, whole, BLOCK_N):
        k = k_desc.load([key_head, start, 0]).reshape(BLOCK_N, D)
        v = v_desc.load([key_head, start, 0]).reshape(BLOCK_N, D)
        p = tl.exp2(tl.dot(q, k.T) * scale - lse[:, None])
        ds = p * (tl.dot(dout, v.T) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    if TAIL:
        for start in tl.range(whole, end, BLOCK_N):
            k = k_desc.load([key_head, start, 0]).reshape(BLOCK_N, D)
            v = v_desc.load([key_head, start, 0]).reshape(BLOCK_N, D)
            keys = start + offs_n[None, :]
            seen = offs_m[:, None] >= keys if CAUSAL else keys < N
            p = tl.where(seen, tl.exp2(tl.dot(q, k.T) * scale - lse[:, None]), 0.0)
            ds = p * (tl.dot(dout, v.T) - delta[:, None])
            dq = tl.dot(ds.to(k.dtype), k, dq)
    dq *= scale / LOG2_E
    dq_desc.store([head, first, 0], dq.to(dq_desc.dtype).reshape(1, BLOCK_M, D))


def described(rows, *arrays, keep=True):
    arrays = [lab.aligned(x, keep) for x in arrays]
    return arrays, [TensorDescriptor.from_tensor(x, [1, rows, x.shape[2]]) for x in arrays]


def dq(q, k, v, dout, lse, delta, dq, causal=1, config=None):
    (H, M, D), (HK, N, _) = q.shape, k.shape
    config = config or dict(BLOCK_M=32, BLOCK_N=16, num_warps=4)
    _, (q_desc, dout_desc) = described(config["BLOCK_M"], q, dout)
    (stored,), (dq_desc,) = described(config["BLOCK_M"], dq, keep=False)
    _, (k_desc, v_desc) = described(config["BLOCK_N"], k, v)
    dq_kernel[(triton.cdiv(M, config["BLOCK_M"]), H)](
        q_desc, k_desc, v_desc, dout_desc, lse, delta, dq_desc, M, N, LOG2_E.value * D**-0.5, lse.stride(0),
        delta.stride(0), H // HK, D=D, CAUSAL=bool(causal), TAIL=bool(causal or N % config["BLOCK_N"]), **config,
    )  # fmt: skip
    if stored is not dq:
        dq.copy_(stored)

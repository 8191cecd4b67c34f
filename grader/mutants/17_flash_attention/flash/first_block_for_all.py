# expect: not-written
# Every program takes the last queries.
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import labutils as lab

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def join(s, v, m, l, acc, scale):
    m_new = tl.maximum(m, tl.max(s, 1) * scale)
    p = tl.exp2(s * scale - m_new[:, None])
    factor = tl.exp2(m - m_new)
    l = l * factor + tl.sum(p, 1)
    acc = tl.dot(p.to(v.dtype), v, acc * factor[:, None])
    return m_new, l, acc


@triton.jit
def flash_kernel(
    q_desc, k_desc, v_desc, out_desc, lse_ptr, M, N, scale, stride_lh, GROUP, D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    pid_m = tl.num_programs(0) - 1
    head = tl.program_id(1)
    key_head, first = head // GROUP, pid_m * BLOCK_M
    offs_m, offs_n = first + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    q = q_desc.load([head, first, 0]).reshape(BLOCK_M, D)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    if CAUSAL:
        whole, end = first // BLOCK_N * BLOCK_N, tl.minimum(first + BLOCK_M, N)
    else:
        whole, end = N // BLOCK_N * BLOCK_N, N
    for start in tl.range(0, whole, BLOCK_N):
        k = k_desc.load([key_head, start, 0]).reshape(BLOCK_N, D)
        v = v_desc.load([key_head, start, 0]).reshape(BLOCK_N, D)
        m, l, acc = join(tl.dot(q, k.T), v, m, l, acc, scale)
    if TAIL:
        for start in tl.range(whole, end, BLOCK_N):
            k = k_desc.load([key_head, start, 0]).reshape(BLOCK_N, D)
            v = v_desc.load([key_head, start, 0]).reshape(BLOCK_N, D)
            keys = start + offs_n[None, :]
            seen = offs_m[:, None] >= keys if CAUSAL else keys < N
            m, l, acc = join(tl.where(seen, tl.dot(q, k.T), -float("inf")), v, m, l, acc, scale)
    out_desc.store([head, first, 0], (acc / l[:, None]).to(out_desc.dtype).reshape(1, BLOCK_M, D))
    tl.store(lse_ptr + head.to(tl.int64) * stride_lh + offs_m, (m + tl.log2(l)) * LN_2, mask=offs_m < M)


def flash(q, k, v, out, lse, causal=1, BLOCK_M=32, BLOCK_N=16):
    (H, M, D), (HK, N, _) = q.shape, k.shape
    o = lab.aligned(out, keep=False)
    q_desc, out_desc = (TensorDescriptor.from_tensor(x, [1, BLOCK_M, D]) for x in (lab.aligned(q), o))
    k_desc, v_desc = (TensorDescriptor.from_tensor(lab.aligned(x), [1, BLOCK_N, D]) for x in (k, v))
    flags = dict(CAUSAL=bool(causal), TAIL=bool(causal or N % BLOCK_N))
    flash_kernel[(triton.cdiv(M, BLOCK_M), H)](
        q_desc, k_desc, v_desc, out_desc, lse, M, N, LOG2_E.value * D**-0.5, lse.stride(0), H // HK, D=D,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, **flags,
    )  # fmt: skip
    if o is not out:
        out.copy_(o)

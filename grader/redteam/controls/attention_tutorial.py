# tries: attention in the manner of Triton's tutorial: an inner function, block pointers, exp2
# exercise: 17_flash_attention/forward
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def _attn_fwd_inner(acc, l_i, m_i, q, K_block, V_block, qk_scale, N_CTX, BLOCK_N: tl.constexpr):
    for start_n in range(0, N_CTX, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        k = tl.load(K_block)
        qk = tl.dot(q, k)
        m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
        qk = qk * qk_scale - m_ij[:, None]
        p = tl.math.exp2(qk)
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(V_block)
        acc = tl.dot(p.to(v.dtype), v, acc)
        m_i = m_ij
        K_block = tl.advance(K_block, (0, BLOCK_N))
        V_block = tl.advance(V_block, (BLOCK_N, 0))
    return acc, l_i, m_i


@triton.jit
def _attn_fwd(
    Q, K, V, sm_scale, M, Out, stride_qh, stride_qm, stride_kh, stride_kn, stride_vh, stride_vn, stride_oh, stride_om,
    stride_lh, N_Q, N_CTX, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0)
    off_h = tl.program_id(1).to(tl.int64)
    Q_block = tl.make_block_ptr(
        Q + off_h * stride_qh, (N_Q, HEAD_DIM), (stride_qm, 1), (start_m * BLOCK_M, 0), (BLOCK_M, HEAD_DIM), (1, 0)
    )
    K_block = tl.make_block_ptr(
        K + off_h * stride_kh, (HEAD_DIM, N_CTX), (1, stride_kn), (0, 0), (HEAD_DIM, BLOCK_N), (0, 1)
    )
    V_block = tl.make_block_ptr(
        V + off_h * stride_vh, (N_CTX, HEAD_DIM), (stride_vn, 1), (0, 0), (BLOCK_N, HEAD_DIM), (1, 0)
    )
    O_block = tl.make_block_ptr(
        Out + off_h * stride_oh, (N_Q, HEAD_DIM), (stride_om, 1), (start_m * BLOCK_M, 0), (BLOCK_M, HEAD_DIM), (1, 0)
    )
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 0.0
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    qk_scale = sm_scale
    qk_scale *= 1.44269504  # 1/log(2)
    q = tl.load(Q_block)
    acc, l_i, m_i = _attn_fwd_inner(acc, l_i, m_i, q, K_block, V_block, qk_scale, N_CTX, BLOCK_N)
    m_i += tl.math.log2(l_i)
    acc = acc / l_i[:, None]
    tl.store(M + off_h * stride_lh + offs_m, m_i * 0.6931471805599453)
    tl.store(O_block, acc.to(Out.type.element_ty))


def forward(q, k, v, out, lse):
    H, N_Q, HEAD_DIM = q.shape
    N_CTX = k.shape[-2]
    _attn_fwd[(N_Q // 32, H, 1)](
        q, k, v, HEAD_DIM**-0.5, lse, out, q.stride(0), q.stride(1), k.stride(0), k.stride(1), v.stride(0),
        v.stride(1), out.stride(0), out.stride(1), lse.stride(0), N_Q, N_CTX, HEAD_DIM=HEAD_DIM, BLOCK_M=32,
        BLOCK_N=16, num_stages=2,
    )  # fmt: skip

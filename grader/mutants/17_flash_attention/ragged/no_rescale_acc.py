# expect: wrong-formula
# acc is not rescaled.
import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def join(s, v, m, l, acc, scale):
    m_new = tl.maximum(m, tl.max(s, 1) * scale)
    p = tl.exp2(s * scale - m_new[:, None])
    factor = tl.exp2(m - m_new)
    l = l * factor + tl.sum(p, 1)
    acc = tl.dot(p.to(v.dtype), v, acc)
    return m_new, l, acc


@triton.jit
def ragged_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, M, N, scale,
    stride_qh, stride_qm, stride_kh, stride_kn, stride_vh, stride_vn, stride_oh, stride_om, stride_lh,
    GROUP, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, offs_d = tl.arange(0, BLOCK_N), tl.arange(0, D)
    key_head = head // GROUP
    k_ptrs = k_ptr + key_head * stride_kh + offs_n[:, None] * stride_kn + offs_d[None, :]
    v_ptrs = v_ptr + key_head * stride_vh + offs_n[:, None] * stride_vn + offs_d[None, :]
    out_ptrs = out_ptr + head * stride_oh + offs_m[:, None] * stride_om + offs_d[None, :]
    q = tl.load(q_ptr + head * stride_qh + offs_m[:, None] * stride_qm + offs_d[None, :],
                mask=offs_m[:, None] < M, other=0.0)  # fmt: skip
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for start in range(0, N, BLOCK_N):
        mask_n = start + offs_n < N
        k = tl.load(k_ptrs + start * stride_kn, mask=mask_n[:, None], other=0.0)
        v = tl.load(v_ptrs + start * stride_vn, mask=mask_n[:, None], other=0.0)
        s = tl.where(mask_n[None, :], tl.dot(q, k.T), -float("inf"))
        m, l, acc = join(s, v, m, l, acc, scale)
    tl.store(out_ptrs, acc / l[:, None], mask=offs_m[:, None] < M)
    tl.store(lse_ptr + head * stride_lh + offs_m, (m + tl.log2(l)) * LN_2, mask=offs_m < M)


def ragged(q, k, v, out, lse, BLOCK_M=32, BLOCK_N=16):
    (H, M, D), N = q.shape, k.shape[1]
    scale = LOG2_E.value * D**-0.5
    strides = [s for x in (q, k, v, out) for s in x.stride()[:2]]
    ragged_kernel[(triton.cdiv(M, BLOCK_M), H)](
        q, k, v, out, lse, M, N, scale, *strides, lse.stride(0), H // len(k), D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N
    )

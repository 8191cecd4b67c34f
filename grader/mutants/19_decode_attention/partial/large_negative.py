# expect: accepted
# A large negative number in place of minus infinity.
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
    acc = tl.dot(p.to(v.dtype), v, acc * factor[:, None])
    return m_new, l, acc


@triton.jit
def partial_kernel(
    q_ptr, k_ptr, v_ptr, lengths_ptr, part_ptr, lse_ptr, chunk, scale,
    stride_qb, stride_qh, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
    stride_pb, stride_ph, stride_ps, stride_lb, stride_lh, GROUP,
    D: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    split, key_head, b = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    offs_g, offs_n, offs_d = tl.arange(0, BLOCK_G), tl.arange(0, BLOCK_N), tl.arange(0, D)
    length = tl.load(lengths_ptr + b)
    m = tl.full((BLOCK_G,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_G,), tl.float32)
    acc = tl.zeros((BLOCK_G, D), tl.float32)
    heads, mask_g = key_head * GROUP + offs_g, offs_g < GROUP
    q_ptrs = q_ptr + b * stride_qb + heads[:, None] * stride_qh + offs_d[None, :]
    q = tl.load(q_ptrs, mask=mask_g[:, None], other=0.0)
    k_ptrs = k_ptr + b * stride_kb + key_head * stride_kh + offs_n[:, None] * stride_kn + offs_d[None, :]
    v_ptrs = v_ptr + b * stride_vb + key_head * stride_vh + offs_n[:, None] * stride_vn + offs_d[None, :]
    end = tl.minimum(split * chunk + chunk, length)
    for start in range(split * chunk, end, BLOCK_N):
        mask_n = start + offs_n < end
        k = tl.load(k_ptrs + start * stride_kn, mask=mask_n[:, None], other=0.0)
        v = tl.load(v_ptrs + start * stride_vn, mask=mask_n[:, None], other=0.0)
        s = tl.where(mask_n[None, :], tl.dot(q, k.T), -1.0e30)
        m, l, acc = join(s, v, m, l, acc, scale)
    # a part without keys has l = 0, and 0 / 0 would spoil the combination
    part = acc / tl.where(l > 0, l, 1.0)[:, None]
    part_ptrs = part_ptr + b * stride_pb + heads[:, None] * stride_ph + split * stride_ps + offs_d[None, :]
    tl.store(part_ptrs, part, mask=mask_g[:, None])
    tl.store(lse_ptr + b * stride_lb + heads * stride_lh + split, (m + tl.log2(l)) * LN_2, mask=mask_g)


def strides(*arrays):
    """All strides but the last of each array, one after the other, as the kernels take them."""
    return [s for x in arrays for s in x.stride()[:-1]]


def constants(q, key_heads):
    group = q.shape[1] // key_heads
    return dict(GROUP=group, D=q.shape[2], BLOCK_G=max(16, triton.next_power_of_2(group)), BLOCK_N=16)


def partial(q, k, v, lengths, chunk, part, lse):
    B, HK, N, D = k.shape
    partial_kernel[part.shape[2], HK, B](
        q, k, v, lengths, part, lse, chunk, LOG2_E.value * D**-0.5, *strides(q, k, v, part, lse), **constants(q, HK)
    )

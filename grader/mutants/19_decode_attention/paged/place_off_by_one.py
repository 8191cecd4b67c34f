# expect: off-by-one
# Keys are taken one place too far, round about.
import torch
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
def paged_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, part_ptr, lse_ptr, chunk, scale,
    stride_qb, stride_qh, stride_kp, stride_kh, stride_kn, stride_vp, stride_vh, stride_vn, stride_tb,
    stride_pb, stride_ph, stride_ps, stride_lb, stride_lh, GROUP,
    PAGE: tl.constexpr, D: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_N: tl.constexpr,
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
    k_ptrs = k_ptr + key_head * stride_kh + offs_d[None, :]
    v_ptrs = v_ptr + key_head * stride_vh + offs_d[None, :]
    end = tl.minimum(split * chunk + chunk, length)
    for start in range(split * chunk, end, BLOCK_N):
        keys = start + offs_n
        mask_n = keys < end
        page = tl.load(table_ptr + b * stride_tb + keys // PAGE, mask=mask_n, other=0).to(tl.int64)
        place = (keys + 1) % PAGE
        k = tl.load(k_ptrs + (page * stride_kp + place * stride_kn)[:, None], mask=mask_n[:, None], other=0.0)
        v = tl.load(v_ptrs + (page * stride_vp + place * stride_vn)[:, None], mask=mask_n[:, None], other=0.0)
        s = tl.where(mask_n[None, :], tl.dot(q, k.T), -float("inf"))
        m, l, acc = join(s, v, m, l, acc, scale)
    part = acc / tl.where(l > 0, l, 1.0)[:, None]
    part_ptrs = part_ptr + b * stride_pb + heads[:, None] * stride_ph + split * stride_ps + offs_d[None, :]
    tl.store(part_ptrs, part, mask=mask_g[:, None])
    tl.store(lse_ptr + b * stride_lb + heads * stride_lh + split, (m + tl.log2(l)) * LN_2, mask=mask_g)


@triton.jit
def combine_kernel(
    part_ptr, lse_ptr, out_ptr, S, H, stride_ob, stride_oh, D: tl.constexpr, BLOCK_S: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    offs_s, offs_d = tl.arange(0, BLOCK_S), tl.arange(0, D)
    mask_s = offs_s < S
    lse = tl.load(lse_ptr + row * S + offs_s, mask=mask_s, other=-float("inf"))
    part_ptrs = part_ptr + (row * S + offs_s[:, None]) * D + offs_d[None, :]
    part = tl.load(part_ptrs, mask=mask_s[:, None], other=0.0)
    weights = tl.exp(lse - tl.max(lse, 0))
    out = tl.sum(weights[:, None] * part, 0) / tl.sum(weights, 0)
    tl.store(out_ptr + row // H * stride_ob + row % H * stride_oh + offs_d, out)


def strides(*arrays):
    """All strides but the last of each array, one after the other, as the kernels take them."""
    return [s for x in arrays for s in x.stride()[:-1]]


def constants(q, key_heads):
    group = q.shape[1] // key_heads
    return dict(GROUP=group, D=q.shape[2], BLOCK_G=max(16, triton.next_power_of_2(group)), BLOCK_N=16)


def combine(part, lse, out):
    (B, H, S, D) = part.shape
    combine_kernel[(B * H,)](part, lse, out, S, H, *strides(out), D=D, BLOCK_S=max(8, triton.next_power_of_2(S)))


def paged(q, k, v, table, lengths, out):
    (B, H, D), (_, HK, PAGE, _), T, chunk = q.shape, k.shape, table.shape[1], 32
    S = triton.cdiv(T * PAGE, chunk)
    part = torch.empty(B, H, S, D, device=q.device)
    lse = torch.empty(B, H, S, device=q.device)
    paged_kernel[S, HK, B](
        q, k, v, table, lengths, part, lse, chunk, LOG2_E.value * D**-0.5, *strides(q, k, v, table, part, lse),
        PAGE=PAGE, **constants(q, HK),
    )  # fmt: skip
    combine(part, lse, out)

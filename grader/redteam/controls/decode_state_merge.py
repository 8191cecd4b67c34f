# tries: decoding with merged states in FlashInfer's manner: no parts in memory, a loop in one program
# exercise: 19_decode_attention/decode
# expect: accepted

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def state_merge(o, m, d, other_o, other_m, other_d):
    m_max = tl.maximum(m, other_m)
    mine, theirs = tl.exp2(m - m_max), tl.exp2(other_m - m_max)
    d_new = d * mine + other_d * theirs
    o = o * mine[:, None] + other_o * theirs[:, None]
    return o, m_max, d_new


@triton.jit
def decode_kernel(
    q_ptr, k_ptr, v_ptr, lengths_ptr, out_ptr, sm_scale, sqb, sqh, skb, skh, skn, svb, svh, svn, sob, soh,
    group, BLOCK_G: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    b, kv_head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    g, d = tl.arange(0, BLOCK_G), tl.arange(0, D)
    heads = kv_head * group + g
    q = tl.load(q_ptr + b * sqb + heads[:, None] * sqh + d[None, :], mask=(g < group)[:, None], other=0.0)
    length = tl.load(lengths_ptr + b)
    o = tl.zeros((BLOCK_G, D), tl.float32)
    m = tl.full((BLOCK_G,), -1.0e30, tl.float32)
    den = tl.full((BLOCK_G,), 0.0, tl.float32)
    for start in tl.range(0, length, BLOCK_N, num_stages=2):
        n = start + tl.arange(0, BLOCK_N)
        k = tl.load(
            k_ptr + b * skb + kv_head * skh + n[None, :] * skn + d[:, None], mask=(n < length)[None, :], other=0.0
        )
        v = tl.load(
            v_ptr + b * svb + kv_head * svh + n[:, None] * svn + d[None, :], mask=(n < length)[:, None], other=0.0
        )
        s = tl.dot(q, k) * (sm_scale * LOG2E)
        s = tl.where((n < length)[None, :], s, -float("inf"))
        tile_m = tl.max(s, 1)
        p = tl.exp2(s - tile_m[:, None])
        o, m, den = state_merge(o, m, den, tl.dot(p.to(v.dtype), v), tile_m, tl.sum(p, 1))
    tl.store(out_ptr + b * sob + heads[:, None] * soh + d[None, :], o / den[:, None], mask=(g < group)[:, None])


def decode(q, k, v, lengths, out):
    B, H, D = q.shape
    HK = k.shape[1]
    group = H // HK
    decode_kernel[(B, HK)](
        q, k, v, lengths, out, 1.0 / D**0.5, *q.stride()[:-1], *k.stride()[:-1], *v.stride()[:-1],
        out.stride(0), out.stride(1), group, BLOCK_G=max(16, triton.next_power_of_2(group)), BLOCK_N=32, D=D,
    )  # fmt: skip

# %% [markdown]
# # Decode one token at a time from a cache in pages
#
# **You will** write attention for a single new query of each sequence: first over parts of the keys, then all parts
# together, then over a cache that lies scattered in pages.
#
# **You will learn to**
# - say from the intensity why making one token is a matter of bandwidth, and reading a prompt is not;
# - give a GPU enough programs by splitting the keys, and put their parts together;
# - read the cache once for all query heads that share it;
# - follow a block table, and count what pages and continuous batches save.
#
# **You need** `12_online_softmax` and `17_flash_attention`.
#
# About 130 minutes. Works without a GPU; only times need one.

# %% cell="setup"

# %% [markdown]
# ## Predict: bytes
#
# A model that has read a prompt (*prefill*) makes one token after another (*decode*). Keys and values of all tokens so
# far are kept: the *cache*. Each new token's query meets all of them, in every layer and head. `group` query heads
# share a key head.
#
# 1. `queries` new tokens of one sequence meet its cache together: thousands in prefill, one in decode. How many FLOPs
#    are done for each byte of keys and values, if each is read once? (Two products; no mask, no softmax.)
# 2. How many bytes has the cache of one sequence?
# 3. Room for a sequence is reserved in *pages*, of so many tokens each. A server that reserves the longest sequence
#    allowed has one large page. How many tokens' room does a sequence leave unused?
# 4. How many sequences of a length fit into memory?


# %% cell="solution" id="ledgers"
def intensity(queries, group, itemsize):
    """FLOPs for each byte of the cache."""
    ### BEGIN SOLUTION
    return 4 * group * queries / (2 * itemsize)  # for each element of a key and of its value
    ### END SOLUTION


def cache_bytes(layers, key_heads, D, tokens, itemsize):
    """Bytes of keys and values of one sequence."""
    ### BEGIN SOLUTION
    return 2 * layers * key_heads * D * tokens * itemsize
    ### END SOLUTION


def unused(length, page):
    """Tokens that the pages of a sequence have room for and do not hold."""
    ### BEGIN SOLUTION
    return -length % page
    ### END SOLUTION


def sequences(memory, token_bytes, length, page):
    """How many sequences of `length` tokens fit into `memory` bytes; a token takes `token_bytes` in all layers."""
    ### BEGIN SOLUTION
    pages = memory // (page * token_bytes)
    return pages // -(-length // page)
    ### END SOLUTION


# %% cell="check" exercise="19_decode_attention/intensity"
lab.check("19_decode_attention/intensity")

# %% cell="check" exercise="19_decode_attention/cache_bytes"
lab.check("19_decode_attention/cache_bytes")

# %% cell="check" exercise="19_decode_attention/unused"
lab.check("19_decode_attention/unused")

# %% cell="check" exercise="19_decode_attention/sequences"
lab.check("19_decode_attention/sequences")

# %% [markdown]
# Pages give the room; *continuous batching* uses it. Requests end at different times. In fixed batches a slot idles
# until the longest of its batch is done; a continuous scheduler gives it to the next request in the very next step.
# That is why sequences of one launch have all sorts of lengths.

# %%
from labutils import decoding

decoding.room(cache_bytes, unused, sequences)
decoding.batching()

# %% [markdown]
# ## Level 1: a part of the keys
#
# In decode a head has one query: no rows of queries to spread over programs, and a batch of one gives 8 key heads to
# 132 SMs. So the *keys* are split. Program (s, h, b) takes keys s · `chunk` to (s + 1) · `chunk` of sequence b and key
# head h, as far as the sequence goes, and leaves the attention over its part alone and its log-sum-exp.
#
# | argument | shape | meaning |
# |---|---|---|
# | `q_ptr` | (B, H, D) | one query for each sequence and head, fp16 or bf16 |
# | `k_ptr`, `v_ptr` | (B, HK, N, D) | caches; what lies past a sequence's length is left over from others |
# | `lengths_ptr` | (B,) | int32, keys of each sequence, 1 to N |
# | `part_ptr` | (B, H, S, D) | fp32, output: attention over each part; 0 for a part without keys |
# | `lse_ptr` | (B, H, S) | fp32, output: natural log Σ exp(q·k / √D) of the part; -inf for a part without keys |
#
# The last stride is 1, and `lse` has S beside each other. `chunk` is a multiple of `BLOCK_N`. The cache is what costs:
# one program serves all `GROUP` query heads of its key head, as the rows of a tile. A tensor core wants 16 rows: with
# fewer, `BLOCK_G` is 16, and the rest is masked. `join` is yours from unit 17.
#
# <details><summary>Hint 1</summary>Heads of the tile are key_head · GROUP + offs_g, under offs_g &lt; GROUP: for q,
# part and lse. Keys run from split · chunk to the smaller of that + chunk and length.</details>
# <details><summary>Hint 2</summary>A part without keys runs no turn of the loop: m is -inf and l is 0. What becomes of
# acc / l, and of m + log2(l)?</details>
# <details><summary>Hint 3</summary>0 / 0 is NaN, and the combination cannot get rid of it: divide by
# <code>tl.where(l &gt; 0, l, 1.0)</code>. -inf + -inf is -inf, as wanted.</details>

# %% cell="solution" id="partial_kernel"
import torch
import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def join(s, v, m, l, acc, scale):
    """(m, l, acc) after one more tile: s (BLOCK_G, BLOCK_N) raw scores, v (BLOCK_N, D) their values."""
    ### BEGIN SOLUTION
    m_new = tl.maximum(m, tl.max(s, 1) * scale)
    p = tl.exp2(s * scale - m_new[:, None])
    factor = tl.exp2(m - m_new)
    l = l * factor + tl.sum(p, 1)
    acc = tl.dot(p.to(v.dtype), v, acc * factor[:, None])
    return m_new, l, acc
    ### END SOLUTION


@triton.jit
def partial_kernel(
    q_ptr, k_ptr, v_ptr, lengths_ptr, part_ptr, lse_ptr, chunk, scale,
    stride_qb, stride_qh, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
    stride_pb, stride_ph, stride_ps, stride_lb, stride_lh, GROUP,
    D: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """part, lse = attention of the query heads of one key head to `chunk` keys of one sequence."""
    split, key_head, b = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    offs_g, offs_n, offs_d = tl.arange(0, BLOCK_G), tl.arange(0, BLOCK_N), tl.arange(0, D)
    length = tl.load(lengths_ptr + b)
    m = tl.full((BLOCK_G,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_G,), tl.float32)
    acc = tl.zeros((BLOCK_G, D), tl.float32)
    ### BEGIN SOLUTION
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
        s = tl.where(mask_n[None, :], tl.dot(q, k.T), -float("inf"))
        m, l, acc = join(s, v, m, l, acc, scale)
    # a part without keys has l = 0, and 0 / 0 would spoil the combination
    part = acc / tl.where(l > 0, l, 1.0)[:, None]
    part_ptrs = part_ptr + b * stride_pb + heads[:, None] * stride_ph + split * stride_ps + offs_d[None, :]
    tl.store(part_ptrs, part, mask=mask_g[:, None])
    tl.store(lse_ptr + b * stride_lb + heads * stride_lh + split, (m + tl.log2(l)) * LN_2, mask=mask_g)
    ### END SOLUTION


# %% cell="given" id="partial"
def strides(*arrays):
    """All strides but the last of each array, one after the other, as the kernels take them."""
    return [s for x in arrays for s in x.stride()[:-1]]


def tile_config(N):
    if N <= 256:
        return dict(BLOCK_N=16, num_warps=4, num_stages=2)
    return dict(BLOCK_N=64, num_warps=4, num_stages=3)


def constants(q, key_heads):
    """What both kernels know of heads when they are compiled."""
    group = q.shape[1] // key_heads
    return dict(GROUP=group, D=q.shape[2], BLOCK_G=max(16, triton.next_power_of_2(group)))


def partial(q, k, v, lengths, chunk, part, lse, config=None):
    B, HK, N, D = k.shape
    partial_kernel[part.shape[2], HK, B](
        q, k, v, lengths, part, lse, chunk, LOG2_E.value * D**-0.5, *strides(q, k, v, part, lse),
        **constants(q, HK), **(config or tile_config(N)),
    )  # fmt: skip


lab.tiny("19_decode_attention/partial")

# %% cell="check" exercise="19_decode_attention/partial"
lab.check("19_decode_attention/partial")

# %% [markdown]
# When a check of this unit fails:
#
# | what it says | a common cause |
# |---|---|
# | `padded-lanes`, `wrong-formula`: the lengths | the mask ends at N, or at the end of the chunk, not the length |
# | `wrong-formula`: query head h | heads taken as h % HK; a group are *neighbouring* heads |
# | `overflow` | 0 / 0 or -inf − -inf in a part without keys; exp of lse without the largest taken off |
# | points for counts are missing | the cache is read once for each query head |
# | `wrong-formula`: powers of two | lse is natural: weights are exp(lse − largest), not exp2 |
# | `out-of-bounds` on a page | a page number was read past the end of the sequence: it is -1 there |
#
# ## Level 2: all parts together
#
# Softmax over all keys gives each part the share exp(lse_s) / Σ exp(lse_s) of the whole. So out is the average of the
# parts with these weights. One program combines the S parts of one head of one sequence; `part` and `lse` are
# contiguous here, and `row` counts heads of all sequences.
#
# <details><summary>Hint 1</summary>As in any softmax: take off the largest lse before exp.</details>
# <details><summary>Hint 2</summary>Load lse under offs_s &lt; S with <code>other=-float("inf")</code>, and the tile of
# parts, (BLOCK_S, D), with 0. Both weigh nothing then.</details>
# <details><summary>Hint 3</summary><code>tl.sum(weights[:, None] * part, 0) / tl.sum(weights, 0)</code></details>


# %% cell="solution" id="combine_kernel"
@triton.jit
def combine_kernel(
    part_ptr, lse_ptr, out_ptr, S, H, stride_ob, stride_oh, D: tl.constexpr, BLOCK_S: tl.constexpr
):  # fmt: skip
    """out (B, H, D) = the mean of part (B, H, S, D) with weights softmax(lse), lse (B, H, S), for one row of (B, H)."""
    row = tl.program_id(0).to(tl.int64)
    offs_s, offs_d = tl.arange(0, BLOCK_S), tl.arange(0, D)
    ### BEGIN SOLUTION
    mask_s = offs_s < S
    lse = tl.load(lse_ptr + row * S + offs_s, mask=mask_s, other=-float("inf"))
    part_ptrs = part_ptr + (row * S + offs_s[:, None]) * D + offs_d[None, :]
    part = tl.load(part_ptrs, mask=mask_s[:, None], other=0.0)
    weights = tl.exp(lse - tl.max(lse, 0))
    out = tl.sum(weights[:, None] * part, 0) / tl.sum(weights, 0)
    tl.store(out_ptr + row // H * stride_ob + row % H * stride_oh + offs_d, out)
    ### END SOLUTION


# %% cell="given" id="decode"
def chunk_of(B, HK, N, BLOCK_N):
    """Keys of a part: 8 programs for each SM if there are keys enough, two tiles each at least."""
    gpu = lab.device.current()
    wanted = 8 * (gpu.sms if gpu else 132)  # fewer, longer parts are read faster: `python -m bench.decode --tune`
    splits = min(max(1, wanted // (B * HK)), triton.cdiv(N, 2 * BLOCK_N), 64)
    return triton.cdiv(triton.cdiv(N, splits), BLOCK_N) * BLOCK_N


def room_for_parts(q, S):
    return q.new_empty(*q.shape[:2], S, q.shape[2], dtype=torch.float32), q.new_empty(
        *q.shape[:2], S, dtype=torch.float32
    )


def combine(part, lse, out):
    (B, H, S, D) = part.shape
    combine_kernel[(B * H,)](part, lse, out, S, H, *strides(out), D=D, BLOCK_S=max(8, triton.next_power_of_2(S)))


def decode(q, k, v, lengths, out, chunk=None, config=None):
    B, HK, N, D = k.shape
    config = config or tile_config(N)
    chunk = chunk or chunk_of(B, HK, N, config["BLOCK_N"])
    part, lse = room_for_parts(q, triton.cdiv(N, chunk))
    partial(q, k, v, lengths, chunk, part, lse, config)
    combine(part, lse, out)


# %% cell="check" exercise="19_decode_attention/decode"
lab.check("19_decode_attention/decode")

# %% [markdown]
# ## Level 3: a cache in pages
#
# Now the caches of all sequences lie in one pool of pages. Key n of sequence b is on page `table[b, n // PAGE]`, at
# place n % `PAGE`. Pages come in any order, and sequences that begin alike may share the first ones, as in the picture.
# Past the last page of a sequence the table holds -1.
#
# | argument | shape | meaning |
# |---|---|---|
# | `k_ptr`, `v_ptr` | (P, HK, PAGE, D) | the pool |
# | `table_ptr` | (B, T) | int32: numbers of pages; the last stride is 1 |
#
# All else is as in level 1. A tile of `BLOCK_N` keys may cover part of a page, or many.
#
# <details><summary>Hint 1</summary>In the loop: page numbers for the keys of the tile, a load of BLOCK_N numbers, under
# the mask of the keys. Then pointers for each row of the tile.</details>
# <details><summary>Hint 2</summary>A pool may have more than 2³¹ elements: <code>.to(tl.int64)</code> before the page
# is multiplied by its stride.</details>
# <details><summary>Hint 3</summary><code>rows = page * stride_kp + place * stride_kn</code>, and k is at
# k_ptr + key_head * stride_kh + rows[:, None] + offs_d[None, :]. V has strides of its own.</details>

# %%
decoding.pages()


# %% cell="solution" id="paged_kernel"
@triton.jit
def paged_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, part_ptr, lse_ptr, chunk, scale,
    stride_qb, stride_qh, stride_kp, stride_kh, stride_kn, stride_vp, stride_vh, stride_vn, stride_tb,
    stride_pb, stride_ph, stride_ps, stride_lb, stride_lh, GROUP,
    PAGE: tl.constexpr, D: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """As partial_kernel, with keys and values in pages of PAGE that `table` lists."""
    split, key_head, b = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    offs_g, offs_n, offs_d = tl.arange(0, BLOCK_G), tl.arange(0, BLOCK_N), tl.arange(0, D)
    length = tl.load(lengths_ptr + b)
    m = tl.full((BLOCK_G,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_G,), tl.float32)
    acc = tl.zeros((BLOCK_G, D), tl.float32)
    heads, mask_g = key_head * GROUP + offs_g, offs_g < GROUP
    q_ptrs = q_ptr + b * stride_qb + heads[:, None] * stride_qh + offs_d[None, :]
    q = tl.load(q_ptrs, mask=mask_g[:, None], other=0.0)
    ### BEGIN SOLUTION
    k_ptrs = k_ptr + key_head * stride_kh + offs_d[None, :]
    v_ptrs = v_ptr + key_head * stride_vh + offs_d[None, :]
    end = tl.minimum(split * chunk + chunk, length)
    for start in range(split * chunk, end, BLOCK_N):
        keys = start + offs_n
        mask_n = keys < end
        page = tl.load(table_ptr + b * stride_tb + keys // PAGE, mask=mask_n, other=0).to(tl.int64)
        place = keys % PAGE
        k = tl.load(k_ptrs + (page * stride_kp + place * stride_kn)[:, None], mask=mask_n[:, None], other=0.0)
        v = tl.load(v_ptrs + (page * stride_vp + place * stride_vn)[:, None], mask=mask_n[:, None], other=0.0)
        s = tl.where(mask_n[None, :], tl.dot(q, k.T), -float("inf"))
        m, l, acc = join(s, v, m, l, acc, scale)
    ### END SOLUTION
    part = acc / tl.where(l > 0, l, 1.0)[:, None]
    part_ptrs = part_ptr + b * stride_pb + heads[:, None] * stride_ph + split * stride_ps + offs_d[None, :]
    tl.store(part_ptrs, part, mask=mask_g[:, None])
    tl.store(lse_ptr + b * stride_lb + heads * stride_lh + split, (m + tl.log2(l)) * LN_2, mask=mask_g)


# %% cell="given" id="paged"
def paged_config(N):
    config = tile_config(N)
    return config | dict(num_stages=config["num_stages"] + 2)  # the numbers of pages are under way, too


def paged(q, k, v, table, lengths, out, chunk=None, config=None):
    (_, HK, PAGE, D), (B, T) = k.shape, table.shape
    config = config or paged_config(T * PAGE)
    chunk = chunk or chunk_of(B, HK, T * PAGE, config["BLOCK_N"])
    part, lse = room_for_parts(q, triton.cdiv(T * PAGE, chunk))
    paged_kernel[part.shape[2], HK, B](
        q, k, v, table, lengths, part, lse, chunk, LOG2_E.value * D**-0.5, *strides(q, k, v, table, part, lse),
        PAGE=PAGE, **constants(q, HK), **config,
    )  # fmt: skip
    combine(part, lse, out)


lab.tiny("19_decode_attention/paged")

# %% cell="check" exercise="19_decode_attention/paged"
lab.check("19_decode_attention/paged")

# %%
# Time beside PyTorch, and beside what reading alone reaches.
print(lab.benchmark("19_decode_attention/decode") or "")
decoding.speeds(decode, paged, intensity)

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** A GPU makes one token for each of 64 sequences in time t. With 128 sequences of the same length the
# products with the *weights* of the model take hardly longer, attention twice as long. Why the difference? And which
# of your four ledgers says how far a server can go?
#
# ### BEGIN SOLUTION
# Weights are read once for all sequences: their intensity grows with the batch, and until it reaches the ridge more
# sequences are free. Each sequence has a cache of its own: its intensity is the group, 4 for fp16, whatever the batch,
# far below the ridge, so time is bytes of cache over bandwidth. How many sequences there can be is set by memory: by
# `sequences`, and pages make it larger than reservations do.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** `20_flash_cuda` writes attention by hand. Try here: fp8 caches (half the bytes, so half the time);
# `queries` > 1, as a draft model proposes several tokens; one part in place of several for long batches, which need no
# combination; the combination in the last program that is done, as `10_reduction` did with an atomic.
#
# **In practice** vLLM, SGLang and TensorRT-LLM keep caches in pages and batch continuously; their kernels are
# FlashAttention's split-KV path, FlashInfer's, or a Triton kernel much like yours. DeepSeek's MLA stores one small
# latent vector for all heads, and reads it once for K and V: `group` is then 128, and decode comes near the ridge.
#
# **Reading.** [PagedAttention](https://arxiv.org/abs/2309.06180): why servers wasted most of their cache.
# [Flash-Decoding](https://pytorch.org/blog/flash-decoding/): splitting the keys. [Orca](
# https://www.usenix.org/conference/osdi22/presentation/yu): batches that change with every token.
# [GQA](https://arxiv.org/abs/2305.13245): fewer key heads.

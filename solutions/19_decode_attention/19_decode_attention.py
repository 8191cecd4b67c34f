# %% [markdown]
# # Decode attention with a paged KV cache
#
# **You will** write attention for one new query per sequence, in three kernels. The first computes attention over a
# part of the keys. The second combines the results of all parts. The third does the same as the first, but reads keys
# and values that are scattered over [pages](../glossary.md#page) of memory.
#
# **You will learn to**
#
# - use [arithmetic intensity](../glossary.md#arithmetic-intensity) to explain why generating a token is
#   [memory-bound](../glossary.md#memory-bound) and reading a prompt is not;
# - split the keys over many programs to keep the whole GPU busy, and combine the partial results;
# - read keys and values once for all query heads that share them;
# - find the page of a key with a [block table](../glossary.md#block-table), and see what paging and [continuous
#   batching](../glossary.md#continuous-batching) save.
#
# **You need** `12_online_softmax` and `17_flash_attention`.
#
# About 130 minutes. You need a GPU only to measure times.
#
# ## Predict: bytes
#
# A language model processes *tokens*: words, or parts of words. It first reads a user's text, the *prompt*
# ([prefill](../glossary.md#prefill)), and then generates one token at a time ([decode](../glossary.md#decode)). The
# prompt and the generated tokens form a *sequence*. The model keeps the keys and values of these tokens in the [KV
# cache](../glossary.md#kv-cache). In every layer and head, the query of a new token attends to all keys of the token's
# sequence. Each key head is shared by `group` query heads ([grouped-query
# attention](../glossary.md#grouped-query-attention)).
#
# 1. `intensity`: how many FLOPs does attention do per byte of keys and values that it reads? It computes the outputs of
#    `queries` new tokens of one sequence (thousands in prefill, one in decode), and reads the sequence's keys and
#    values once. Count the FLOPs of the matrix products Q Kᵀ and P V of unit 17 (P: softmax weights), for all `group`
#    query heads. Ignore mask and softmax.
# 2. `cache_bytes`: how many bytes does the cache of a sequence of `tokens` tokens take? A key has `D` elements.
# 3. `unused`: memory is reserved in *pages*, each for `page` tokens. A sequence of `length` tokens gets as few pages as
#    possible. How many more tokens fit on these pages?
# 4. `sequences`: how many sequences of `length` tokens fit into `memory` bytes, if memory is reserved in pages?

# %% cell="setup"

# %% cell="solution" id="ledgers"
def intensity(queries, group, itemsize):
    """Return the FLOPs per byte of the cache."""
    ### BEGIN SOLUTION
    return 4 * group * queries / (2 * itemsize)  # per element of a key and of its value
    ### END SOLUTION


def cache_bytes(layers, key_heads, D, tokens, itemsize):
    """Return the bytes of the cache of one sequence."""
    ### BEGIN SOLUTION
    return 2 * layers * key_heads * D * tokens * itemsize
    ### END SOLUTION


def unused(length, page):
    """Return the number of tokens for which memory is reserved but unused. The sequence has `length` tokens."""
    ### BEGIN SOLUTION
    return -length % page
    ### END SOLUTION


def sequences(memory, token_bytes, length, page):
    """Return how many sequences fit. The keys and values of one token, in all layers, take `token_bytes`."""
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

# %% cell="given" id="launchers"
import torch
import triton
import triton.language as tl

from labutils import decoding

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


def strides(*arrays):
    """Return the strides of each array, except the stride of its last axis, which is 1."""
    return [s for x in arrays for s in x.stride()[:-1]]


def tile_config(N):
    if N <= 256:
        return dict(BLOCK_N=16, num_warps=4, num_stages=2)
    return dict(BLOCK_N=64, num_warps=4, num_stages=3)


def constants(q, key_heads):
    """Return the sizes that partial_kernel and paged_kernel take by name."""
    group = q.shape[1] // key_heads
    return dict(GROUP=group, D=q.shape[2], BLOCK_G=max(16, triton.next_power_of_2(group)))


def partial(q, k, v, lengths, chunk, part, lse, config=None):
    B, HK, N, D = k.shape
    partial_kernel[part.shape[2], HK, B](
        q, k, v, lengths, part, lse, chunk, LOG2_E.value * D**-0.5, *strides(q, k, v, part, lse),
        **constants(q, HK), **(config or tile_config(N)),
    )  # fmt: skip


def chunk_of(B, HK, N, BLOCK_N):
    """Return the number of keys in a part (level 1). The aim is 8 programs per SM, with at most 64 parts per cache."""
    gpu = lab.device.current()
    wanted = 8 * (gpu.sms if gpu else 132)  # tuned by `python -m bench.decode --tune`
    splits = min(max(1, wanted // (B * HK)), triton.cdiv(N, 2 * BLOCK_N), 64)
    return triton.cdiv(triton.cdiv(N, splits), BLOCK_N) * BLOCK_N


def allocate_parts(q, S):
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
    part, lse = allocate_parts(q, triton.cdiv(N, chunk))
    partial(q, k, v, lengths, chunk, part, lse, config)
    combine(part, lse, out)


def paged_config(N):
    config = tile_config(N)
    return config | dict(num_stages=config["num_stages"] + 2)  # loads of page numbers need stages too


def paged(q, k, v, table, lengths, out, chunk=None, config=None):
    (_, HK, PAGE, D), (B, T) = k.shape, table.shape
    config = config or paged_config(T * PAGE)
    chunk = chunk or chunk_of(B, HK, T * PAGE, config["BLOCK_N"])
    part, lse = allocate_parts(q, triton.cdiv(T * PAGE, chunk))
    paged_kernel[part.shape[2], HK, B](
        q, k, v, table, lengths, part, lse, chunk, LOG2_E.value * D**-0.5, *strides(q, k, v, table, part, lse),
        PAGE=PAGE, **constants(q, HK), **config,
    )  # fmt: skip
    combine(part, lse, out)


decoding.room(cache_bytes, unused, sequences)
decoding.batching()
decoding.pages()

# %% [markdown]
# A server works on a *batch* of requests together. Each request has one *slot* of the batch. Requests end at different
# times. With fixed batches, the slot of an ended request stays empty until the whole batch ends. With continuous
# batching, a new request gets the slot before the next token is generated. The output above shows how many steps (one
# token for each request) this saves, and how much memory small pages save. One launch processes the sequences of all
# slots. They started at different times, so their lengths differ.
#
# ## Level 1: part of the keys
#
# In decode, each head has only one query per sequence, so you cannot split the queries over several programs. With one
# program for each of 8 key heads, a batch of one sequence leaves most of the {claim: decode_sms}
# [SMs](../glossary.md#sm) of an H200 idle. So split the *keys* into S parts of `chunk` keys
# ([split-KV](../glossary.md#flash-decoding), or Flash-Decoding). Each program handles one sequence `b`, one key head
# `key_head` and one part `split`. The part has the keys `split * chunk` to `split * chunk + chunk - 1`, as far as these
# indices are below the sequence's length. A part without keys is *empty*. The program stores the attention over its
# part, and the part's [log-sum-exp](../glossary.md#log-sum-exp).
#
# In the shapes, B is the number of sequences, H the number of query heads and HK the number of key heads. A cache has
# room for N keys.
#
# | argument | shape | meaning |
# |---|---|---|
# | `q_ptr` | (B, H, D) | one query per sequence and head, fp16 or [bf16](../glossary.md#bf16) |
# | `k_ptr`, `v_ptr` | (B, HK, N, D) | caches; past a sequence's length, they hold data that you must ignore |
# | `lengths_ptr` | (B,) | int32: number of keys of each sequence, 1 to N |
# | `part_ptr` | (B, H, S, D) | output, fp32: attention over each part; 0 for an empty part |
# | `lse_ptr` | (B, H, S) | output, fp32: log Σ exp(q·k / √D) of each part, to base e; -inf for an empty part |
#
# The last stride of every array is 1. `chunk` is a multiple of `BLOCK_N`, the number of keys per iteration. Reading the
# cache takes most of the time, so a program must read its keys and values only once for all `GROUP` query heads of its
# key head. Load the queries of these heads as the rows of one [tile](../glossary.md#tile). [Tensor
# cores](../glossary.md#tensor-core) need at least 16 rows: if `GROUP` is smaller, `BLOCK_G` is 16, and you mask the
# other rows. Copy `join` from unit 17: it updates the running maximum m, sum l and accumulators `acc` of each row.
# `scale` is log₂ e / √D, so that `join` can use exp2. The maximum m and the sum l then belong to the scores times log₂
# e. So the log-sum-exp of the scores, lse, is `LN_2` · (m + log2(l)).
#
# <details><summary>Hint 1</summary>The query heads of the tile are <code>key_head * GROUP + offs_g</code>, with the
# mask <code>offs_g &lt; GROUP</code> for q, part and lse. The loop over keys ends at the smaller of
# <code>split * chunk + chunk</code> and <code>length</code>.</details>
# <details><summary>Hint 2</summary>For an empty part, the loop runs no iteration: m is -inf, and l and acc are 0. What
# values do acc / l and m + log2(l) then have?</details>
# <details><summary>Hint 3</summary>0 / 0 is NaN, and a NaN in one part would make the combined result NaN. So divide by
# <code>tl.where(l &gt; 0, l, 1.0)</code>. m + log2(l) is -inf + -inf = -inf, as required.</details>


# %% cell="solution" id="partial_kernel"
@triton.jit
def join(s, v, m, l, acc, scale):
    """Return (m, l, acc) after one more tile, with raw scores s (BLOCK_G, BLOCK_N) and values v (BLOCK_N, D)."""
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
    """Compute part and lse for the query heads of one key head, over `chunk` keys of one sequence."""
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
    # an empty part has l = 0, and 0 / 0 is NaN
    part = acc / tl.where(l > 0, l, 1.0)[:, None]
    part_ptrs = part_ptr + b * stride_pb + heads[:, None] * stride_ph + split * stride_ps + offs_d[None, :]
    tl.store(part_ptrs, part, mask=mask_g[:, None])
    tl.store(lse_ptr + b * stride_lb + heads * stride_lh + split, (m + tl.log2(l)) * LN_2, mask=mask_g)
    ### END SOLUTION


# %% cell="check" exercise="19_decode_attention/partial"
lab.tiny("19_decode_attention/partial")
lab.check("19_decode_attention/partial")

# %% [markdown]
# Use this table when a check of levels 1 to 3 fails:
#
# | diagnosis | common cause |
# |---|---|
# | `padded-lanes`, or `wrong-formula`: "lengths" | the mask ends at N or at the end of the part, not at the length |
# | `wrong-formula`: "query head h" | the kernel uses key head `h % HK` instead of `h // GROUP` |
# | `overflow` | an empty part gives 0 / 0; or (level 2) the maximum is not subtracted from lse before exp |
# | a count of bytes marked ✗ | a program reads the keys and values once per query head |
# | `wrong-formula`: "exp2" | (level 2) the weights are computed with exp2, but lse is a logarithm to base e |
# | `out-of-bounds` on a page | (level 3) a table entry past the sequence's end, -1, is used as a page number |
#
# ## Level 2: combine the parts
#
# In the softmax over all keys, the weights of the keys of part `s` add up to w = exp(`lse[s]`) / Σ exp(`lse`), where
# the sum is over all parts. So `out` is the average of the rows `part[b, h, s]` over `s`, weighted by w. The program
# with the ID `row` = `b * H + h` computes `out[b, h]`. `part` and `lse` are contiguous, so the kernel gets no strides
# for them.
#
# <details><summary>Hint 1</summary>As in any softmax, subtract the maximum lse before exp.</details>
# <details><summary>Hint 2</summary>Load lse with the mask <code>offs_s &lt; S</code> and
# <code>other=-float("inf")</code>, so that parts past the end have weight 0. Load the tile of parts, (BLOCK_S, D), with
# <code>other=0.0</code>.</details>
# <details><summary>Hint 3</summary><code>tl.sum(weights[:, None] * part, 0) / tl.sum(weights, 0)</code></details>


# %% cell="solution" id="combine_kernel"
@triton.jit
def combine_kernel(
    part_ptr, lse_ptr, out_ptr, S, H, stride_ob, stride_oh, D: tl.constexpr, BLOCK_S: tl.constexpr
):  # fmt: skip
    """Compute out[b, h] = sum over s of softmax(lse[b, h])[s] * part[b, h, s], for one row = b * H + h.

    out   (B, H, D)
    part  (B, H, S, D)
    lse   (B, H, S)
    """
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


# %% cell="check" exercise="19_decode_attention/decode"
lab.check("19_decode_attention/decode")

# %% [markdown]
# ## Level 3: a paged cache
#
# Now two arrays of pages, the *pools*, hold the keys and the values of all sequences ([paged
# attention](../glossary.md#pagedattention)). Page `p` of the first pool holds the keys of `PAGE` consecutive tokens of
# a sequence, and page `p` of the second pool holds their values. Row `b` of the block table `table` lists the pages of
# sequence `b`: key `n` is on page `table[b, n // PAGE]`, at position `n % PAGE`. Value `n` is at the same place in the
# second pool. The pages of a sequence can be anywhere in the pool. Sequences that begin with the same tokens can share
# pages, as in the figure of block tables at the end of the first section. After the last page of a sequence, `table`
# holds -1. Unused places of a pool may hold NaN.
#
# | argument | shape | meaning |
# |---|---|---|
# | `k_ptr`, `v_ptr` | (P, HK, PAGE, D) | pools of P pages |
# | `table_ptr` | (B, T) | int32: the numbers of up to T pages per sequence; the last stride is 1 |
#
# The other arguments are those of level 1. The `BLOCK_N` keys of a tile may be on one page, or on many pages.
#
# <details><summary>Hint 1</summary>In the loop, load <code>BLOCK_N</code> page numbers, one for each key of the tile,
# with the mask of the keys. Then compute a pointer for each row of the tile.</details>
# <details><summary>Hint 2</summary>A pool may have more than 2³¹ elements. So convert the page number to
# <code>tl.int64</code> before you multiply it by a stride.</details>
# <details><summary>Hint 3</summary>Let <code>place</code> be the key's position on its page. With <code>rows = page *
# stride_kp + place * stride_kn</code>, the elements of k are at <code>k_ptr + key_head * stride_kh + rows[:, None] +
# offs_d[None, :]</code>. V has its own strides.</details>


# %% cell="solution" id="paged_kernel"
@triton.jit
def paged_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, part_ptr, lse_ptr, chunk, scale,
    stride_qb, stride_qh, stride_kp, stride_kh, stride_kn, stride_vp, stride_vh, stride_vn, stride_tb,
    stride_pb, stride_ph, stride_ps, stride_lb, stride_lh, GROUP,
    PAGE: tl.constexpr, D: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute the same as partial_kernel, with keys and values in pages of PAGE tokens. `table` lists the pages."""
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


# %% cell="check" exercise="19_decode_attention/paged"
lab.tiny("19_decode_attention/paged")
lab.check("19_decode_attention/paged")

# %%
lab.claims("19_decode_attention")  # a two-minute quiz: predict each number, then compare
# This cell prints your times, PyTorch's times, and how long it takes just to read the cache.
print(lab.benchmark("19_decode_attention/decode") or "")
decoding.speeds(decode, paged, intensity)

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** A GPU generates one token for each of 64 sequences. With 128 sequences of the same length, the matmuls
# with the matrices of the model's [linear layers](../glossary.md#linear-layer) take hardly longer, but attention takes
# twice as long. Why do matmuls and attention differ? Which of your four functions of the first section returns the
# largest possible batch?
#
# ### BEGIN SOLUTION
# All sequences share the matrices of the linear layers, which are read once. So the intensity of these matmuls grows
# with the batch, and below the ridge point more sequences take no more time. Each sequence has its own cache. The
# intensity of attention in fp16 is the group size, for any batch, and far below the ridge point. So the time is the
# bytes of cache divided by the bandwidth. `sequences` limits the batch: memory holds only so many caches. Pages allow
# more sequences than reserving the maximum length does.
# ### END SOLUTION

# %% [markdown]
# **Next.** `20_hunt` hides bugs in kernels like these. `20_flash_cuda` is attention in CUDA C++. Things to try here:
#
# - Store the cache in [fp8](../glossary.md#fp8), which halves the bytes.
# - Allow several queries per sequence. [Speculative decoding](../glossary.md#speculative-decoding) needs them: a small
#   model proposes several tokens, and the large model checks them in one step.
# - Let the program that finishes last combine the parts. An [atomic](../glossary.md#atomic) counter shows which one it
#   is.
#
# **In practice**, programs that serve language models, such as vLLM and SGLang, use paged caches and continuous
# batching. DeepSeek's models use multi-head latent attention (MLA): one vector per token serves as key and as value of
# all 128 query heads. So `group` is 128, and half as many bytes are read: the intensity of decode is about 256 FLOPs
# per byte, close to the [ridge point](../glossary.md#ridge-point).
#
# **Reading.** [PagedAttention](https://arxiv.org/abs/2309.06180): why caches without pages waste memory.
# [Flash-Decoding](https://pytorch.org/blog/flash-decoding/): splitting the keys.
# [Orca](https://www.usenix.org/conference/osdi22/presentation/yu): continuous batching.
# [GQA](https://arxiv.org/abs/2305.13245): fewer key heads.

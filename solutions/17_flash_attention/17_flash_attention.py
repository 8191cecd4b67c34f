# %% [markdown]
# # Attention in one pass, tile by tile
#
# **You will** write three kernels for [attention](../glossary.md#attention) with the algorithm
# [FlashAttention](../glossary.md#flashattention). This algorithm never stores the matrix of
# [scores](../glossary.md#score).
#
# **You will learn to**
# - count the bytes that attention stores and moves, with and without a matrix of scores;
# - compute attention one [tile](../glossary.md#tile) at a time, with the online softmax of `12_online_softmax`;
# - mask keys past the end, and keys that a query must not see.
#
# **You need** `12_online_softmax` and `14_matmul_triton`. Level 3 also needs `14_matmul_triton_persistent`, and the
# last part also needs `16_matmul_ring`.
#
# About 150 minutes. You need a GPU only to measure times.
#
# ## Predict: bytes
#
# Attention is computed for many [*heads*](../glossary.md#head), independently of each other. For a sequence of N
# tokens, the [queries Q, keys K, values V](../glossary.md#query-key-value) and the output of one head are N × D
# matrices. The scores $S = QK^\top/\sqrt{D}$ and the weights $P = \mathrm{softmax}(S)$ are N × N matrices. The output
# is $PV$: row i of the output is the weighted average of all rows of V, with row i of P as weights. An element has
# `itemsize` bytes.
#
# 1. `score_bytes`: how many bytes do the scores of all heads take?
# 2. `naive_bytes`: three kernels compute S, then P, then PV. Each kernel reads its inputs from memory once and writes
#    its result once. How many bytes do the three kernels move for one head?
# 3. `tiled_bytes`: each program keeps `block_m` rows of Q, loops over all rows of K and V, and writes its rows of the
#    output. Tiles of S and P stay in [registers](../glossary.md#register). How many bytes do all programs of one head
#    load and store? N need not be a multiple of `block_m`; the last program loads and stores only rows that exist.

# %% cell="setup"

# %% cell="solution" id="ledgers"
def score_bytes(heads, N, itemsize):
    """Return the bytes of the scores of all heads."""
    ### BEGIN SOLUTION
    return heads * N * N * itemsize
    ### END SOLUTION


def naive_bytes(N, D, itemsize):
    """Return the bytes that the three kernels move for one head."""
    ### BEGIN SOLUTION
    scores = 2 * N * D + N * N  # read Q and K, write S
    softmax = 2 * N * N
    values = N * N + 2 * N * D  # read P and V, write out
    return itemsize * (scores + softmax + values)
    ### END SOLUTION


def tiled_bytes(N, D, block_m, itemsize):
    """Return the bytes that all programs of one head load and store. Each program has `block_m` queries."""
    ### BEGIN SOLUTION
    blocks = -(-N // block_m)
    return itemsize * (2 * N * D + blocks * 2 * N * D)
    ### END SOLUTION


# %% cell="check" exercise="17_flash_attention/score_bytes"
lab.check("17_flash_attention/score_bytes")

# %% cell="check" exercise="17_flash_attention/naive_bytes"
lab.check("17_flash_attention/naive_bytes")

# %% cell="check" exercise="17_flash_attention/tiled_bytes"
lab.check("17_flash_attention/tiled_bytes")

# %% cell="given" id="launchers"
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from labutils import attention

# The launchers of levels 1 to 3, with tile sizes for each GPU. You need not read them.
LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


def strides(*arrays):
    """Return two strides for each array: from head to head, and from row to row."""
    return [s for x in arrays for s in x.stride()[:2]]


def tile_config(M, N, D):
    gpu = lab.device.current()
    if M * N < 2**16:
        return dict(BLOCK_M=32, BLOCK_N=16, num_warps=4, num_stages=2)
    if gpu and gpu.capability < (8, 0):  # no async copies, at most 64 KB of shared memory
        return dict(BLOCK_M=64, BLOCK_N=32, num_warps=4, num_stages=1)
    return dict(BLOCK_M=128, BLOCK_N=64, num_warps=4 if D <= 64 else 8, num_stages=3)


def forward(q, k, v, out, lse):
    (H, M, D), N = q.shape, k.shape[1]
    config, scale = tile_config(M, N, D), LOG2_E.value * D**-0.5
    grid = (M // config["BLOCK_M"], H)
    forward_kernel[grid](q, k, v, out, lse, N, scale, *strides(q, k, v, out), lse.stride(0), D=D, **config)


def ragged(q, k, v, out, lse):
    (H, M, D), N = q.shape, k.shape[1]
    ragged_kernel[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), H)](
        q, k, v, out, lse, M, N, LOG2_E.value * D**-0.5, *strides(q, k, v, out), lse.stride(0), H // len(k), D=D
    )


def flash_config(M, N, D):
    gpu = lab.device.current()
    if M * N < 2**16:
        return dict(BLOCK_M=32, BLOCK_N=16, num_warps=4, num_stages=2)
    if gpu and gpu.capability[0] == 9:
        return dict(BLOCK_M=128, BLOCK_N=64 if D > 64 else 128, num_warps=4, num_stages=2 if D > 64 else 3)
    if gpu and gpu.capability[0] == 10:
        return dict(BLOCK_M=128, BLOCK_N=128 if D > 64 else 64, num_warps=4, num_stages=3)
    return dict(BLOCK_M=128, BLOCK_N=32 if D > 64 else 64, num_warps=8 if D > 64 else 4, num_stages=3)


def flash(q, k, v, out, lse, causal=1, config=None):
    (H, M, D), (HK, N, _) = q.shape, k.shape
    config = dict(config or flash_config(M, N, D))
    BLOCK_M, BLOCK_N = config["BLOCK_M"], config["BLOCK_N"]
    o = lab.aligned(out, keep=False)
    q_desc, out_desc = (TensorDescriptor.from_tensor(x, [1, BLOCK_M, D]) for x in (lab.aligned(q), o))
    k_desc, v_desc = (TensorDescriptor.from_tensor(lab.aligned(x), [1, BLOCK_N, D]) for x in (k, v))
    flags = dict(CAUSAL=bool(causal), TAIL=bool(causal or N % BLOCK_N), SPECIALIZE=config.pop("SPECIALIZE", False))
    flash_kernel[(triton.cdiv(M, BLOCK_M), H)](
        q_desc, k_desc, v_desc, out_desc, lse, M, N, LOG2_E.value * D**-0.5, lse.stride(0), H // HK, D=D,
        **flags, **config,
    )  # fmt: skip
    if o is not out:
        out.copy_(o)


attention.ledgers(score_bytes, naive_bytes, tiled_bytes)
attention.stepper()

# %% [markdown]
# The two products of a head take 4·N²·D [FLOPs](../glossary.md#flop). Divide this number by the bytes moved. For large
# N in [fp16](../glossary.md#fp16), you get these [arithmetic intensities](../glossary.md#arithmetic-intensity) in FLOPs
# per byte:
#
# - Three kernels: D/2. They move N × N elements four times, which is 8·N² bytes.
# - Two kernels: D, the number that papers report. The first kernel computes S and P and writes P; the second one reads
#   P and computes PV. So N × N elements move twice.
# - One kernel with tiles: about `block_m`, if you count the bytes that the programs load. Most of these bytes come from
#   the [L2 cache](../glossary.md#l2-cache). If you count only bytes that move from or to memory, each once, the
#   intensity is N/2.
#
# The figure above shows what a program keeps for each row of scores:
#
# - m, the largest score so far;
# - l, the sum of exp(s − m) over the scores s so far;
# - acc, the sum of the rows of V so far, each row multiplied by its weight exp(s − m).
#
# Step through the figure: when the maximum grows, how do l and acc change?
#
# ## Level 1: process one tile
#
# Your three kernels call `join`, which takes a tile of raw scores s = q kᵀ, without the factor 1/√D, and updates (m, l,
# acc). The update is the [online softmax](../glossary.md#online-softmax) of unit 12 with one more
# [accumulator](../glossary.md#accumulator), acc.
#
# GPUs compute exp2 in hardware (`tl.exp2`); `exp` needs an extra multiplication. So the kernels use exp2: exp(s / √D) =
# exp2(s · `scale`) with `scale` = log₂ e / √D, and m is now the maximum of s · `scale`. Scaling costs no extra
# instruction, because s · `scale` − m is a single [fused multiply-add](../glossary.md#fma). `LN_2` is ln 2, defined
# above.
#
# | argument | shape | meaning |
# |---|---|---|
# | `q_ptr`, `out_ptr` | (H, M, D) | input, output: fp16 or [bf16](../glossary.md#bf16); the last stride is 1 |
# | `k_ptr`, `v_ptr` | (H, N, D) | inputs: dtype and last stride as for q |
# | `lse_ptr` | (H, M) | output, fp32: the [log-sum-exp](../glossary.md#log-sum-exp) log Σ exp(s / √D), to base e |
# | `stride_qh`, `stride_qm`, … | integers | elements from one head to the next, and from one row to the next |
#
# H counts the heads of all sequences in the batch. A head has M queries and N keys. One program computes the outputs of
# `BLOCK_M` queries of one head. At this level, M is a multiple of `BLOCK_M` and N is a multiple of `BLOCK_N`. D is 32,
# 64 or 128.
#
# <details><summary>Hint 1</summary>Compute m_new = max(m, row maximum of s · scale) and p = exp2(s · scale − m_new).
# Multiply the old l and acc by exp2(m − m_new).</details>
# <details><summary>Hint 2</summary><code>tl.dot</code> needs p in the dtype of v: <code>tl.dot(p.to(v.dtype), v,
# acc)</code>. Compute l from the fp32 values of p.</details>
# <details><summary>Hint 3</summary>At the end, out = acc / l and lse = (m + log2(l)) · ln 2.</details>


# %% cell="solution" id="forward_kernel"
@triton.jit
def join(s, v, m, l, acc, scale):
    """Return (m, l, acc) after one more tile, with raw scores s (BLOCK_M, BLOCK_N) and values v (BLOCK_N, D).

    m (BLOCK_M,) is the largest s · scale so far, and l (BLOCK_M,) is the sum of the weights exp2(s · scale - m).
    acc (BLOCK_M, D) is the sum of the rows of v, each multiplied by its weight.
    """
    ### BEGIN SOLUTION
    m_new = tl.maximum(m, tl.max(s, 1) * scale)
    p = tl.exp2(s * scale - m_new[:, None])
    factor = tl.exp2(m - m_new)
    l = l * factor + tl.sum(p, 1)
    acc = tl.dot(p.to(v.dtype), v, acc * factor[:, None])
    return m_new, l, acc
    ### END SOLUTION


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, N, scale,
    stride_qh, stride_qm, stride_kh, stride_kn, stride_vh, stride_vn, stride_oh, stride_om, stride_lh,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute out = softmax(q k^T / sqrt(D)) v and the log-sum-exp lse of each row, for BLOCK_M queries of a head."""
    head = tl.program_id(1).to(tl.int64)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, offs_d = tl.arange(0, BLOCK_N), tl.arange(0, D)
    k_ptrs = k_ptr + head * stride_kh + offs_n[:, None] * stride_kn + offs_d[None, :]
    v_ptrs = v_ptr + head * stride_vh + offs_n[:, None] * stride_vn + offs_d[None, :]
    out_ptrs = out_ptr + head * stride_oh + offs_m[:, None] * stride_om + offs_d[None, :]
    q = tl.load(q_ptr + head * stride_qh + offs_m[:, None] * stride_qm + offs_d[None, :])
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    ### BEGIN SOLUTION
    for start in range(0, N, BLOCK_N):
        k = tl.load(k_ptrs + start * stride_kn)
        v = tl.load(v_ptrs + start * stride_vn)
        m, l, acc = join(tl.dot(q, k.T), v, m, l, acc, scale)
    tl.store(out_ptrs, acc / l[:, None])
    tl.store(lse_ptr + head * stride_lh + offs_m, (m + tl.log2(l)) * LN_2)
    ### END SOLUTION


# %% cell="check" exercise="17_flash_attention/forward"
lab.check("17_flash_attention/forward")

# %% [markdown]
# Use this table when a check of levels 1 to 3 fails. (Words in parentheses say what the check's message is about.)
#
# | diagnosis | common cause |
# |---|---|
# | `wrong-formula` (rescaling) | l or acc is not multiplied by exp2(m − m_new) |
# | `wrong-formula` (log₂ e) | the factor log₂ e is missing before exp2, or the factor ln 2 is missing in lse |
# | `overflow` | the maximum is not subtracted before exp2; or a row of the first tile is all -inf, so m is -inf |
# | `padded-lanes` | a key past the end has score 0, so its weight is not 0; its score must be -inf (level 2) |
# | `missing-accumulation` | `acc = tl.dot(p, v)` drops the old acc; or the loop ends early |
# | `out-of-bounds`, `tail-unmasked` | a load or store has no mask for rows past the end (level 2) |
#
# ## Level 2: any length, grouped-query attention
#
# Load rows of Q, K and V past the end as 0, with a [mask](../glossary.md#mask). A *query* of zeros does no harm,
# because its result is not stored. A *key* of zeros has score 0 and would get a weight, so set its score to -inf. A
# *value* past the end must not be NaN, because 0 · NaN is NaN.
#
# In many models, several query heads share one head of keys and values: [grouped-query
# attention](../glossary.md#grouped-query-attention) (GQA). With H query heads and HK key heads, each group of `GROUP` =
# H / HK adjacent query heads reads the same key head: query head h reads key head h // `GROUP`. The [KV
# cache](../glossary.md#kv-cache) is then `GROUP` times smaller.
#
# [Autotuning](../glossary.md#autotuning) chooses the tile sizes of this kernel.
#
# <details><summary>Hint 1</summary>Use <code>key_head = head // GROUP</code> for K and V, and <code>head</code> for
# everything else.</details>
# <details><summary>Hint 2</summary>Let <code>start</code> be the first key of a tile. After the product: <code>s =
# tl.where(start + offs_n[None, :] &lt; N, s, -float("inf"))</code>.</details>
# <details><summary>Hint 3</summary>Rows of Q, out and lse have the mask <code>offs_m &lt; M</code>. Rows of K and V
# have the mask <code>start + offs_n &lt; N</code>. Load Q, K and V with <code>other=0.0</code>.</details>


# %% cell="solution" id="ragged_kernel"
def few_for_small(configs, arguments, **_):
    """Called by autotune: keep only the first configuration for small arrays, and the others for large arrays."""
    return configs[:1] if arguments["M"] * arguments["N"] < 2**16 else configs[1:]


CONFIGS = [triton.Config(dict(BLOCK_M=32, BLOCK_N=16), num_warps=4, num_stages=2)] + [
    triton.Config(dict(BLOCK_M=m, BLOCK_N=n), num_warps=w, num_stages=s)
    for m, n, w, s in [(128, 64, 4, 2), (128, 64, 8, 3), (128, 128, 8, 2), (64, 64, 4, 3), (64, 32, 4, 2)]
]


@triton.autotune(CONFIGS, key=["M", "N", "D"], prune_configs_by={"early_config_prune": few_for_small})
@triton.jit
def ragged_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, M, N, scale,
    stride_qh, stride_qm, stride_kh, stride_kn, stride_vh, stride_vn, stride_oh, stride_om, stride_lh,
    GROUP, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute the same as forward_kernel, for any M, N ≥ 1, and for H = GROUP · HK query heads.

    q_ptr, out_ptr  (H, M, D)      k_ptr, v_ptr  (HK, N, D)      lse_ptr  (H, M)
    """
    head = tl.program_id(1).to(tl.int64)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, offs_d = tl.arange(0, BLOCK_N), tl.arange(0, D)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    ### BEGIN SOLUTION
    key_head = head // GROUP
    k_ptrs = k_ptr + key_head * stride_kh + offs_n[:, None] * stride_kn + offs_d[None, :]
    v_ptrs = v_ptr + key_head * stride_vh + offs_n[:, None] * stride_vn + offs_d[None, :]
    q_ptrs = q_ptr + head * stride_qh + offs_m[:, None] * stride_qm + offs_d[None, :]
    out_ptrs = out_ptr + head * stride_oh + offs_m[:, None] * stride_om + offs_d[None, :]
    q = tl.load(q_ptrs, mask=offs_m[:, None] < M, other=0.0)
    for start in range(0, N, BLOCK_N):
        mask_n = start + offs_n < N
        k = tl.load(k_ptrs + start * stride_kn, mask=mask_n[:, None], other=0.0)
        v = tl.load(v_ptrs + start * stride_vn, mask=mask_n[:, None], other=0.0)
        # a key of zeros has score 0, and only -inf has weight 0
        s = tl.where(mask_n[None, :], tl.dot(q, k.T), -float("inf"))
        m, l, acc = join(s, v, m, l, acc, scale)
    tl.store(out_ptrs, acc / l[:, None], mask=offs_m[:, None] < M)
    tl.store(lse_ptr + head * stride_lh + offs_m, (m + tl.log2(l)) * LN_2, mask=offs_m < M)
    ### END SOLUTION


# %% cell="check" exercise="17_flash_attention/ragged"
lab.tiny("17_flash_attention/ragged")
lab.check("17_flash_attention/ragged")

# %% [markdown]
# ## Level 3: causal, in two loops, with tensor descriptors
#
# In a language model, query i sees only keys j ≤ i (a [causal mask](../glossary.md#causal-mask)). Nearly half of all
# tiles of scores lie above the diagonal: skip them. Most other tiles lie below the diagonal and need no mask. So write
# two loops:
#
# - The first loop covers tiles in which every query sees every key. Without `CAUSAL`, it covers every full tile of
#   `BLOCK_N` keys.
# - The second loop covers tiles on the diagonal, where scores with j > i become -inf. Without `CAUSAL`, this loop
#   covers the last tile, if that tile is not full. The launcher sets `TAIL` to False if the second loop has nothing to
#   do.
#
# For 1 of the 4 points, the check counts bytes: do not load tiles that no query of the program sees.
#
# `desc.load([head, row, 0])` loads a tile of shape (1, rows, D), with zeros past the end of the head. `.reshape(rows,
# D)` drops the first axis. `desc.store([head, row, 0], x)` stores a tile of this shape and of the array's dtype, so it
# takes `x.reshape(1, rows, D).to(desc.dtype)`. Loads and stores through a
# [tensor descriptor](../glossary.md#tensor-descriptor) need no strides and no masks. `lse_ptr` is an ordinary pointer,
# so the store of lse needs a stride and a mask. On Hopper and Blackwell GPUs, the [TMA](../glossary.md#tma) copies the
# tile, as in `14_matmul_triton_persistent`.
#
# The last queries see the most keys, so their programs take longest. A long program that starts last would still run
# when all others are done. GPUs usually start programs in the order of their
# [program IDs](../glossary.md#program-id), so the given line for `pid_m` gives the last queries to the first programs.
# This changes only the speed, not the result.
#
# Pass `warp_specialize=SPECIALIZE` to the `tl.range` of the first loop. If `SPECIALIZE` is True, the compiler assigns
# loads, products and softmax to different [warps](../glossary.md#warp) ([warp
# specialization](../glossary.md#warp-specialization)). Triton documents this option only for Blackwell GPUs, and on
# Hopper, Triton 3.7 can compile only some kernels with it. So the launcher passes False, unless you change the
# configuration.
#
# <details><summary>Hint 1</summary>With <code>CAUSAL</code>, all queries of the program see all keys before
# <code>first</code>, the program's first query. The first loop ends at <code>first</code>, rounded down to a multiple
# of <code>BLOCK_N</code>. The second loop ends at <code>min(first + BLOCK_M, N)</code>.</details>
# <details><summary>Hint 2</summary>Compute the loop bounds under <code>if CAUSAL:</code> and <code>else:</code>. The
# compiler keeps only one of the branches. For <code>keys = start + offs_n[None, :]</code>, the mask is <code>offs_m[:,
# None] >= keys</code> with <code>CAUSAL</code>, else <code>keys &lt; N</code>.</details>
# <details><summary>Hint 3</summary>The causal mask also excludes keys past the end: a query i &lt; N sees only keys j ≤
# i.</details>


# %% cell="solution" id="flash_kernel"
@triton.jit
def flash_kernel(
    q_desc, k_desc, v_desc, out_desc, lse_ptr, M, N, scale, stride_lh, GROUP, D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, TAIL: tl.constexpr, SPECIALIZE: tl.constexpr,
):  # fmt: skip
    """Compute out and lse as ragged_kernel does; with CAUSAL (M = N), query i sees only keys j <= i.

    q_desc, out_desc  (H, M, D), tiles 1 x BLOCK_M x D      lse_ptr  (H, M)
    k_desc, v_desc    (HK, N, D), tiles 1 x BLOCK_N x D; H = GROUP · HK
    One program computes BLOCK_M queries of one head.
    """
    pid_m = tl.num_programs(0) - 1 - tl.program_id(0)
    head = tl.program_id(1)
    key_head, first = head // GROUP, pid_m * BLOCK_M
    offs_m, offs_n = first + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    q = q_desc.load([head, first, 0]).reshape(BLOCK_M, D)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    ### BEGIN SOLUTION
    if CAUSAL:
        whole, end = first // BLOCK_N * BLOCK_N, tl.minimum(first + BLOCK_M, N)
    else:
        whole, end = N // BLOCK_N * BLOCK_N, N
    for start in tl.range(0, whole, BLOCK_N, warp_specialize=SPECIALIZE):
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
    ### END SOLUTION


# %% cell="check" exercise="17_flash_attention/flash"
lab.tiny("17_flash_attention/flash")
lab.check("17_flash_attention/flash")

# %% [markdown]
# ## Beyond Triton: the same loop in Gluon
#
# Triton's compiler orders loads and products for you. In [Gluon](../glossary.md#gluon) (see `16_matmul_ring`), you
# choose the order. In the kernel of the file `labutils/lessons/flash_gluon.py`, one warp copies tiles, and each
# [warpgroup](../glossary.md#warpgroup) (four warps) computes the outputs of 64 queries. The kernel is a [persistent
# kernel](../glossary.md#persistent-kernel): each program has a list of tiles of queries, and loads the next Q before it
# ends the current tile. In each iteration, a warpgroup waits for its turn and calls the function `overlap`, which is in
# the next code cell. This function has three steps:
#
# 1. Start the product q kᵀ for the scores s of the *next* tile.
# 2. Start the product of the weights and values of the *current* tile: first the left half of the weights, with the
#    first half of the rows of v, then the right half.
# 3. Wait for the scores only. The caller computes their softmax while the [tensor
#    cores](../glossary.md#tensor-core) finish the other products.
#
# The given line between steps 2 and 3 passes the turn to the next warpgroup ([ping-pong](../glossary.md#ping-pong)).
# Write the three lines before it and the line after it. `x = warpgroup_mma(a, b, c, use_acc=…, is_async=True)` starts
# the computation of c + a·b, or of a·b with `use_acc=False`. `v.slice(i, n)` is the n rows of v from row i on. `x =
# warpgroup_mma_wait(n, [x])` waits until at most the n latest products are still [in flight](../glossary.md#in-flight).
# This exercise gives no points and needs a Hopper GPU.
#
# We measured these TFLOP/s (10¹² FLOPs per second) on an H200, in bf16. FlashAttention-2 and cuDNN (NVIDIA's library
# for neural networks) are called through PyTorch.
#
# | shape (batch, heads, N, D) | FlashAttention-2 | our `flash` | cuDNN | Gluon |
# |---|---|---|---|---|
# | (4, 32, 4096, 128) | {claim: fa2_d128} | {claim: flash_d128} | {claim: cudnn_d128} | {claim: gluon_d128} |
# | (2, 16, 16384, 128), causal | {claim: fa2_long} | {claim: flash_long} | {claim: cudnn_long} | {claim: gluon_long} |
# | (4, 32, 4096, 64) | {claim: fa2_d64} | {claim: flash_d64} | {claim: cudnn_d64} | {claim: gluon_d64} |
#
# For D = 64, the exp2 of a tile take as long as its products. An earlier version of the Gluon kernel, whose warpgroups
# did not take turns, reached {claim: gluon_d64_before} TFLOP/s there.
#
# **FlashAttention 1 to 4.**
#
# - *Version 1* (2022) uses tiles with online softmax, so no N × N matrix goes to memory. Its outer loop runs over keys.
# - *Version 2* (2023) works like your `flash`: a program takes one tile of queries and loops over keys. It divides by l
#   only once, at the end.
# - *Version 3* (2024, Hopper) gives loads to a separate warp. Two warpgroups use the tensor cores alternately
#   ([ping-pong](../glossary.md#ping-pong)), and the softmax of the next tile overlaps with the product of the current
#   tile's weights and values, as in `overlap`. On Hopper, Triton does not reorder your `flash` in this way. But two
#   programs of `flash` can run on the same [SM](../glossary.md#sm): one program multiplies while the other computes its
#   softmax.
# - *Version 4* (2025) is for Blackwell, which has faster tensor cores than Hopper, but not a faster exp2. So this
#   version computes some exp2 values by polynomials, and skips the rescaling when the maximum grows only a little.
#
# **Next.** `17_hunt` hides bugs in kernels like these. `18_flash_backward` computes gradients with the help of lse.
# `19_decode_attention` divides the keys of one query among several programs. `20_flash_cuda` is attention in CUDA C++.
# In this notebook, you can try a sliding window of W keys: query i sees only keys j with i − W < j ≤ i. Which loop
# bounds change, and which tiles need a mask?
#
# **In practice**, call `torch.nn.functional.scaled_dot_product_attention`, or `flex_attention` for a custom mask.
#
# **Reading.** FlashAttention [1](https://arxiv.org/abs/2205.14135), [2](https://arxiv.org/abs/2307.08691),
# [3](https://arxiv.org/abs/2407.08608), [4](https://arxiv.org/abs/2603.05451). [Online normalizer calculation for
# softmax](https://arxiv.org/abs/1805.02867) introduces m and l.

# %% cell="solution" id="overlap"
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, warpgroup_mma, warpgroup_mma_wait


@gluon.jit
def overlap(q, k_t, v, zeros, left, right, acc, next_turn):
    """Start the products of an iteration. Return the next scores (64, BLOCK_N), and acc while its product still runs.

    q            (64, D)             in shared memory
    k_t          (D, BLOCK_N)        the next tile's keys, in shared memory
    v            (BLOCK_N, D)        the current tile's values, in shared memory
    left, right  (64, BLOCK_N / 2)   the current tile's weights, in registers, by halves of its keys
    acc          (64, D)             in registers, as are zeros (64, BLOCK_N)
    next_turn    the mbarrier at which the next warpgroup waits for its turn
    """
    HALF: gl.constexpr = v.shape[0] // 2
    ### BEGIN SOLUTION
    s = warpgroup_mma(q, k_t, zeros, use_acc=False, is_async=True)
    acc = warpgroup_mma(left, v.slice(0, HALF), acc, is_async=True)
    acc = warpgroup_mma(right, v.slice(HALF, HALF), acc, is_async=True)
    ### END SOLUTION
    mbarrier.arrive(next_turn, count=1)  # the next warpgroup may start its products
    ### BEGIN SOLUTION
    s = warpgroup_mma_wait(2, [s])
    ### END SOLUTION
    return s, acc


# %%
lab.claims("17_flash_attention")  # a two-minute quiz: predict each number, then compare
# This cell prints your TFLOP/s and those of two PyTorch backends, then your peak memory and the bytes of the scores.
for name in ("forward", "ragged", "flash"):
    print(lab.benchmark(f"17_flash_attention/{name}") or "")
attention.claims(flash)
attention.memory(flash, score_bytes)
attention.gluon(overlap)

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** For D = 128, the two products of a tile of 128 × 64 scores take 2·2·128·64·128 FLOPs on the tensor cores.
# The softmax takes one exp2 per score. An [SM](../glossary.md#sm) of an H200 does {claim: sm90_tensor_flops_per_cycle}
# FLOPs and {claim: sm90_exp2_per_cycle} exp2 per [cycle](../glossary.md#cycle). How many cycles do the products take?
# How many cycles do the exp2 take? How do these numbers change for D = 64? What fraction of the time are the tensor
# cores idle if a kernel computes products and softmax one after the other?
#
# ### BEGIN SOLUTION
# Products: 4 194 304 / 4096 = 1024 cycles. exp2: 8192 / 16 = 512 cycles, plus the maximum, the sum and the conversions.
# If products and softmax run one after the other, the tensor cores are idle for a third of the time or more. For D = 64
# the products take 512 cycles, as long as the exp2 alone, so high utilization is harder. The fast kernels therefore
# overlap the softmax of one tile with the products of another.
# ### END SOLUTION

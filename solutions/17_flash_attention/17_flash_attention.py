# %% [markdown]
# # Compute attention in one pass, in tiles
#
# **You will** write three kernels for $\mathrm{softmax}(QK^\top/\sqrt{D})\,V$: with whole tiles; with any lengths and
# shared key heads; and causal, with tensor descriptors, the one that is as fast as Triton gets.
#
# **You will learn to**
# - count what attention costs in memory and traffic, with and without an N × N matrix;
# - carry (m, l, acc) over tiles of keys, with exp2 and a scale that costs nothing;
# - keep keys that do not exist, or must not be seen, out of a softmax;
# - split a causal loop, so that only tiles on the diagonal pay for a mask.
#
# **You need** `12_online_softmax` and `14_matmul_triton`.
#
# About 150 minutes. Works without a GPU; only times need one.

# %% cell="setup"

# %% [markdown]
# ## Predict: bytes
#
# Q, K, V and the output of one head are N × D. Between them stand the scores $S = QK^\top/\sqrt{D}$ and the weights
# $P = \mathrm{softmax}(S)$, each N × N. How many bytes have the scores of all heads? How many bytes move for one head
# if three kernels compute S, then P, then PV, each reading its inputs once from memory and writing its result once?
#
# Then in tiles: a program keeps `block_m` rows of Q, walks over all rows of K and V, and writes its rows of the output.
# S and P live in registers, a tile at a time. How many bytes do all programs of a head load and store together? (Leave
# out the log-sum-exp, 4 bytes a row. The last block may not be full.)

# %% cell="given"
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from labutils import attention

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


# %% cell="solution" id="ledgers"
def score_bytes(heads, N, itemsize):
    """Bytes of the scores of all heads."""
    ### BEGIN SOLUTION
    return heads * N * N * itemsize
    ### END SOLUTION


def naive_bytes(N, D, itemsize):
    """Bytes that the three kernels read and write for one head."""
    ### BEGIN SOLUTION
    scores = 2 * N * D + N * N  # read Q and K, write S
    softmax = 2 * N * N
    values = N * N + 2 * N * D  # read P and V, write out
    return itemsize * (scores + softmax + values)
    ### END SOLUTION


def tiled_bytes(N, D, block_m, itemsize):
    """Bytes that programs with block_m queries each load and store for one head."""
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

# %% [markdown]
# "Attention's intensity equals the head size": your ledger says D/2 FLOP a byte for three fp16 kernels. D comes out if
# scale and softmax are fused into one of the products, so that N × N moves twice in place of four times. In tiles it is
# about `block_m` for loads, most of which the L2 answers, and N/2 for memory, if it delivers everything once.
#
# The figure walks over the tiles of a small case, as the finished kernels do. Watch what a new maximum does to l and
# acc.

# %%
attention.ledgers(score_bytes, naive_bytes, tiled_bytes)
attention.stepper()

# %% [markdown]
# ## Level 1: one tile joins
#
# The heart of all that follows is `join`. It takes a tile of raw scores s = q kᵀ, and brings (m, l, acc) up to date, as
# the online softmax did, with acc, the weighted sum of values, beside l.
#
# A GPU computes powers of two, `tl.exp2`; `exp` costs it a multiplication more. So everything is in powers of two:
# exp(s / √D) = exp2(s · `scale`) with `scale` = log₂ e / √D. Some kernels scale Q once. But s · `scale` − m is *one*
# instruction, a fused multiply-add, so scaling here is free, and Q is not rounded again. m is in the scaled unit.
#
# | argument | shape | meaning |
# |---|---|---|
# | `q_ptr`, `out_ptr` | (H, M, D) | input, output: fp16 or bf16; the last stride is 1 |
# | `k_ptr`, `v_ptr` | (H, N, D) | inputs |
# | `lse_ptr` | (H, M) | output: log Σ exp(s / √D), natural, fp32 |
# | `stride_qh`, `stride_qm`, … | numbers | elements to the next head, and to the next row |
#
# H counts the heads of all sequences. One program computes `BLOCK_M` queries of one head. At this level M and N are
# multiples of the tiles. D is 32, 64 or 128.
#
# <details><summary>Hint 1</summary>m_new = max(m, row maximum of s · scale). p = exp2(s · scale − m_new), the factor
# for what was there is exp2(m − m_new).</details>
# <details><summary>Hint 2</summary>Tensor cores want p in the type of v: <code>tl.dot(p.to(v.dtype), v, acc)</code>,
# with acc rescaled before. l sums the fp32 p.</details>
# <details><summary>Hint 3</summary>In the end out = acc / l, and lse = (m + log2(l)) · ln 2.</details>


# %% cell="solution" id="forward_kernel"
@triton.jit
def join(s, v, m, l, acc, scale):
    """(m, l, acc) after one more tile: s (BLOCK_M, BLOCK_N) raw scores, v (BLOCK_N, D) their values.

    m (BLOCK_M,) largest score · scale, l (BLOCK_M,) sum of exp2(s · scale - m), acc (BLOCK_M, D) the same sum over v.
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
    """out = softmax(q k^T / sqrt(D)) v and lse, its log-sum-exp, for BLOCK_M queries of one head."""
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


# %% cell="given" id="forward"
def strides(*arrays):
    """Strides of heads and rows; one after the other, as the kernels take them."""
    return [s for x in arrays for s in x.stride()[:2]]


def tile_config(M, N, D):
    gpu = lab.device.current()
    if M * N < 2**16:
        return dict(BLOCK_M=32, BLOCK_N=16, num_warps=4, num_stages=2)
    if gpu and gpu.capability < (8, 0):  # no asynchronous copies, and 64 KB of shared memory
        return dict(BLOCK_M=64, BLOCK_N=32, num_warps=4, num_stages=1)
    return dict(BLOCK_M=128, BLOCK_N=64, num_warps=4 if D <= 64 else 8, num_stages=3)


def forward(q, k, v, out, lse):
    (H, M, D), N = q.shape, k.shape[1]
    config, scale = tile_config(M, N, D), LOG2_E.value * D**-0.5
    grid = (M // config["BLOCK_M"], H)
    forward_kernel[grid](q, k, v, out, lse, N, scale, *strides(q, k, v, out), lse.stride(0), D=D, **config)


# %% cell="check" exercise="17_flash_attention/forward"
lab.check("17_flash_attention/forward")

# %% [markdown]
# When a check of this unit fails:
#
# | what it says | a common cause |
# |---|---|
# | `wrong-formula`, not rescaled | l or acc keeps weights that are relative to an older maximum |
# | `wrong-formula`, log₂ e | exp2 of a natural exponent, or lse in powers of two |
# | `overflow` | exp2 of a score without its maximum; 0 / 0 in a row that saw no key; -inf − -inf |
# | `padded-lanes` | a key that does not exist has score 0: exp2(0 − m) is not 0, -inf is what makes it 0 |
# | `missing-accumulation` | `acc = tl.dot(p, v)`, or a loop that ends early |
# | `out-of-bounds`, `tail-unmasked` | a load or store without the mask of its rows |
#
# ## Level 2: any lengths, shared key heads
#
# Rows past the end are loaded as 0, under a mask. A query of zeros does no harm: it is never stored. A *key* of zeros
# has score 0, and would join the softmax: its score must become -inf. A *value* beyond the end must not be NaN, as 0 ·
# NaN is NaN.
#
# And many models share keys: with *grouped* queries G = H / HK neighbouring query heads read the same key head, so that
# the cache of keys and values is G times smaller. Head h reads key head h // `GROUP`.
#
# <details><summary>Hint 1</summary><code>key_head = head // GROUP</code>, for K and V; everything else stays with
# head.</details>
# <details><summary>Hint 2</summary>After the product: <code>s = tl.where(start + offs_n[None, :] &lt; N, s,
# -float("inf"))</code>.</details>
# <details><summary>Hint 3</summary>Rows of Q, out and lse take the mask offs_m &lt; M, rows of K and V take start +
# offs_n &lt; N, both with <code>other=0.0</code>.</details>


# %% cell="solution" id="ragged_kernel"
def few_for_small(configs, arguments, **_):
    """Small arrays need no tuning: the first configuration is theirs."""
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
    """As forward_kernel, for any M and N from 1 on, and H = GROUP · HK heads of q.

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


# %% cell="given" id="ragged"
def ragged(q, k, v, out, lse):
    (H, M, D), N = q.shape, k.shape[1]
    ragged_kernel[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), H)](
        q, k, v, out, lse, M, N, LOG2_E.value * D**-0.5, *strides(q, k, v, out), lse.stride(0), H // len(k), D=D
    )


lab.tiny("17_flash_attention/ragged")

# %% cell="check" exercise="17_flash_attention/ragged"
lab.check("17_flash_attention/ragged")

# %% [markdown]
# ## Level 3: causal, in two loops, with descriptors
#
# In a language model query i sees the keys up to its own, j ≤ i. Half of all tiles lie above the diagonal: they are
# never loaded. Of the rest most lie below it, and need no mask. So there are two loops: tiles in which every query of
# the program sees every key; then those on the diagonal, where scores with j > i become -inf. Without `CAUSAL` the
# first loop takes the tiles that are full, and the second the rest, if there is one (`TAIL`).
#
# `desc.load([head, row, 0])` loads a tile (1, rows, D), with zeros past the end of the head; `.reshape(rows, D)` drops
# the 1. No strides, no masks on loads and stores; the copy engine of Hopper and Blackwell does it (unit 14).
#
# Programs usually start in the order of their numbers. Nothing promises it (unit 12), so only speed may depend on it.
# The last queries have the longest way: they go first, so that what runs at the very end is short. That is `pid_m`.
# `warp_specialize` gives loads, products and softmax to warps of their own; Triton 3.6 and 3.7 can do that to this loop
# on Blackwell only.
#
# <details><summary>Hint 1</summary>Causal: keys before <code>first</code>, rounded down to whole tiles, are seen by all
# queries of the program. It ends at <code>min(first + BLOCK_M, N)</code>.</details>
# <details><summary>Hint 2</summary>The bounds differ for <code>if CAUSAL:</code> and <code>else:</code>, a branch that
# the compiler takes. So does the mask: offs_m ≥ start + offs_n, or start + offs_n &lt; N.</details>
# <details><summary>Hint 3</summary>Causal needs no mask for N: queries that exist see only keys that exist.</details>


# %% cell="solution" id="flash_kernel"
@triton.jit
def flash_kernel(
    q_desc, k_desc, v_desc, out_desc, lse_ptr, M, N, scale, stride_lh, GROUP, D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, TAIL: tl.constexpr, SPECIALISE: tl.constexpr,
):  # fmt: skip
    """out = softmax(q k^T / sqrt(D)) v and its log-sum-exp; with CAUSAL (M = N) query i sees the keys j <= i.

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
    for start in tl.range(0, whole, BLOCK_N, warp_specialize=SPECIALISE):
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


# %% cell="given" id="flash"
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
    flags = dict(CAUSAL=bool(causal), TAIL=bool(causal or N % BLOCK_N), SPECIALISE=config.pop("SPECIALISE", False))
    flash_kernel[(triton.cdiv(M, BLOCK_M), H)](
        q_desc, k_desc, v_desc, out_desc, lse, M, N, LOG2_E.value * D**-0.5, lse.stride(0), H // HK, D=D,
        **flags, **config,
    )  # fmt: skip
    if o is not out:
        out.copy_(o)


lab.tiny("17_flash_attention/flash")

# %% cell="check" exercise="17_flash_attention/flash"
lab.check("17_flash_attention/flash")

# %%
# Time against PyTorch's own attention, TFLOP/s beside its two backends, and peak memory beside your ledger.
for name in ("forward", "ragged", "flash"):
    print(lab.benchmark(f"17_flash_attention/{name}") or "")
attention.claims(flash)
attention.memory(flash, score_bytes)

# %% [markdown]
# ## Beyond Triton's scheduler: the same loop in Gluon
#
# Triton orders loads and products itself. In Gluon, its lower floor, you do (`16_matmul_hopper` explains its words).
# Here a warp of its own copies tiles, and groups of four warps own 64 queries each. In every turn a group starts the
# product of the next scores together with that of these weights and values; its softmax then runs while tensor cores
# are busy with the second. For D = 128 two groups fill the registers; for D = 64 acc is half as large, and a third
# group has room. On an H200, bf16, in TFLOP/s:
#
# | shape | FlashAttention-2 | your `flash` | cuDNN | this |
# |---|---|---|---|---|
# | (4, 32, 4096, 128) | 346 | 542 | 676 | 695 |
# | (2, 16, 16384, 128) causal | 313 | 519 | 615 | 708 |
# | (4, 32, 4096, 64) | 302 | 455 | 480 | 499 |
#
# Tried and slower: groups that take turns with the tensor cores ("ping-pong"), a softmax that waits for neither
# product, with two tiles of scores in registers, and a part of the powers of two as polynomials.

# %% cell="given" id="gluon"
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor


@gluon.jit
def load_tiles(q_desc, k_desc, v_desc, smem, bars, q_row, kv_row, tiles, BLOCK_N: gl.constexpr,
               STAGES: gl.constexpr, GROUPS: gl.constexpr):  # fmt: skip
    """The one warp that copies: Q of all groups, then K and V of one tile after another, the last tile first."""
    q_smem, k_smem, v_smem = smem
    q_full, k_full, k_empty, v_full, v_empty = bars
    mbarrier.expect(q_full, GROUPS * q_desc.block_type.nbytes)
    for group in gl.static_range(GROUPS):
        tma.async_copy_global_to_shared(q_desc, [q_row + 64 * group, 0], q_full, q_smem.index(group))
    for turn in range(tiles):
        stage, phase = turn % STAGES, turn // STAGES & 1
        row = kv_row + (tiles - 1 - turn) * BLOCK_N
        mbarrier.wait(k_empty.index(stage), phase ^ 1)
        mbarrier.expect(k_full.index(stage), k_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(k_desc, [row, 0], k_full.index(stage), k_smem.index(stage))
        mbarrier.wait(v_empty.index(stage), phase ^ 1)
        mbarrier.expect(v_full.index(stage), v_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(v_desc, [row, 0], v_full.index(stage), v_smem.index(stage))


@gluon.jit
def attend(group: gl.constexpr, out_desc, lse_ptr, smem, bars, q_row, first, tiles, N, scale, D: gl.constexpr,
           BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, STAGES: gl.constexpr):  # fmt: skip
    """64 queries: the product of the next scores and that of these weights run while the softmax is computed."""
    q_smem, k_smem, v_smem = smem
    q_full, k_full, k_empty, v_full, v_empty = bars
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, o_layout, 2)
    o_rows: gl.constexpr = gl.SliceLayout(1, o_layout)
    s_rows: gl.constexpr = gl.SliceLayout(1, s_layout)
    dtype: gl.constexpr = q_smem.dtype
    q = q_smem.index(group)
    acc = gl.zeros([64, D], gl.float32, o_layout)
    zeros = gl.zeros([64, BLOCK_N], gl.float32, s_layout)
    start = gl.maximum(tiles - gl.cdiv(first + 64 * (group + 1), BLOCK_N), 0) if CAUSAL else 0
    for turn in range(start):  # tiles behind this group's last query; at most STAGES of them
        mbarrier.arrive(k_empty.index(turn), count=1)
        mbarrier.arrive(v_empty.index(turn), count=1)
    mbarrier.wait(q_full, 0)
    mbarrier.wait(k_full.index(start % STAGES), start // STAGES & 1)
    s = warpgroup_mma(q, k_smem.index(start % STAGES).permute((1, 0)), zeros, use_acc=False, is_async=True)
    s = warpgroup_mma_wait(0, [s])
    mbarrier.arrive(k_empty.index(start % STAGES), count=1)
    if CAUSAL:  # the only tile with keys that some of the group's queries see and others do not
        rows = first + 64 * group + gl.arange(0, 64, s_rows)
        keys = (tiles - 1 - start) * BLOCK_N + gl.arange(0, BLOCK_N, gl.SliceLayout(0, s_layout))
        s = gl.where(rows[:, None] >= keys[None, :], s, -float("inf"))
    m = gl.max(s, 1) * scale
    p = gl.exp2(s * scale - m[:, None])
    total = gl.sum(p, 1)
    weights = gl.convert_layout(p.to(dtype), p_layout)
    for turn in range(start + 1, tiles):
        stage, phase = turn % STAGES, turn // STAGES & 1
        before, phase_before = (turn - 1) % STAGES, (turn - 1) // STAGES & 1
        mbarrier.wait(k_full.index(stage), phase)
        mbarrier.wait(v_full.index(before), phase_before)
        s = warpgroup_mma(q, k_smem.index(stage).permute((1, 0)), zeros, use_acc=False, is_async=True)
        acc = warpgroup_mma(weights, v_smem.index(before), acc, is_async=True)
        s = warpgroup_mma_wait(1, [s])
        mbarrier.arrive(k_empty.index(stage), count=1)
        m_new = gl.maximum(m, gl.max(s, 1) * scale)
        p = gl.exp2(s * scale - m_new[:, None])
        factor = gl.exp2(m - m_new)
        total = total * factor + gl.sum(p, 1)
        m = m_new
        acc, weights = warpgroup_mma_wait(0, [acc, weights])
        mbarrier.arrive(v_empty.index(before), count=1)
        acc = acc * gl.convert_layout(factor, o_rows)[:, None]
        weights = gl.convert_layout(p.to(dtype), p_layout)
    last, phase_last = (tiles - 1) % STAGES, (tiles - 1) // STAGES & 1
    mbarrier.wait(v_full.index(last), phase_last)
    acc = warpgroup_mma(weights, v_smem.index(last), acc, is_async=True)
    acc, weights = warpgroup_mma_wait(0, [acc, weights])
    if first + 64 * group < N:
        out = acc * (1 / gl.convert_layout(total, o_rows))[:, None]
        q.store(out.to(dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(out_desc, [q_row + 64 * group, 0], q)
        gl.store(lse_ptr + q_row + 64 * group + gl.arange(0, 64, s_rows), (m + gl.log2(total)) * LN_2)
        tma.store_wait(0)


@gluon.jit
def specialised_kernel(q_desc, k_desc, v_desc, out_desc, lse_ptr, N, scale, GROUP, D: gl.constexpr,
                       BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, STAGES: gl.constexpr,
                       GROUPS: gl.constexpr):  # fmt: skip
    """out = softmax(q k^T / sqrt(D)) v and its log-sum-exp, N = M a multiple of BLOCK_N, heads behind each other.

    q_desc, out_desc  (H * N, D), tiles 64 x D      k_desc, v_desc  (HK * N, D), tiles BLOCK_N x D
    One program computes 64 * GROUPS queries of one head: 64 for each group of four warps; one warp copies.
    """
    head, pid_m = gl.program_id(1), gl.num_programs(0) - 1 - gl.program_id(0)
    first = pid_m * 64 * GROUPS
    q_row, kv_row = head * N + first, head // GROUP * N
    tiles = gl.cdiv(gl.minimum(first + 64 * GROUPS, N), BLOCK_N) if CAUSAL else N // BLOCK_N
    dtype: gl.constexpr = q_desc.dtype
    q_smem = gl.allocate_shared_memory(dtype, [GROUPS, 64, D], q_desc.layout)
    k_smem = gl.allocate_shared_memory(dtype, [STAGES, BLOCK_N, D], k_desc.layout)
    v_smem = gl.allocate_shared_memory(dtype, [STAGES, BLOCK_N, D], v_desc.layout)
    q_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    mbarrier.init(q_full, count=1)
    for stage in gl.static_range(STAGES):
        mbarrier.init(k_full.index(stage), count=1)
        mbarrier.init(v_full.index(stage), count=1)
        mbarrier.init(k_empty.index(stage), count=GROUPS)  # all groups have read it
        mbarrier.init(v_empty.index(stage), count=GROUPS)
    fence_async_shared()
    smem, bars = (q_smem, k_smem, v_smem), (q_full, k_full, k_empty, v_full, v_empty)
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (attend, (0, out_desc, lse_ptr, smem, bars, q_row, first, tiles, N, scale, D, BLOCK_N, CAUSAL, STAGES)),
                (attend, (1, out_desc, lse_ptr, smem, bars, q_row, first, tiles, N, scale, D, BLOCK_N, CAUSAL, STAGES)),
                (load_tiles, (q_desc, k_desc, v_desc, smem, bars, q_row, kv_row, tiles, BLOCK_N, STAGES, GROUPS)),
            ],
            [4, 1],
            [240, 24],
        )
    else:
        gl.warp_specialize(
            [
                (attend, (0, out_desc, lse_ptr, smem, bars, q_row, first, tiles, N, scale, D, BLOCK_N, CAUSAL, STAGES)),
                (attend, (1, out_desc, lse_ptr, smem, bars, q_row, first, tiles, N, scale, D, BLOCK_N, CAUSAL, STAGES)),
                (attend, (2, out_desc, lse_ptr, smem, bars, q_row, first, tiles, N, scale, D, BLOCK_N, CAUSAL, STAGES)),
                (load_tiles, (q_desc, k_desc, v_desc, smem, bars, q_row, kv_row, tiles, BLOCK_N, STAGES, GROUPS)),
            ],
            [4, 4, 1],
            [160, 160, 24],
        )


def usable(q, k, BLOCK_N=128):
    """Whether the kernel takes these arrays, (H, M, D) and (HK, N, D), on the GPU at hand."""
    gpu, (_, M, D), N = lab.device.current(), q.shape, k.shape[1]
    return bool(gpu) and gpu.capability[0] == 9 and M == N and N % BLOCK_N == 0 and D in (64, 128)


def specialised(q, k, v, out, lse, causal=1, BLOCK_N=128, STAGES=2):
    (H, N, D), HK = q.shape, len(k)
    if not usable(q, k, BLOCK_N):
        raise ValueError("specialised: M = N, a multiple of BLOCK_N, and D = 64 or 128, on Hopper")
    if not all(x.is_contiguous() for x in (q, k, v, out, lse)):
        raise ValueError("specialised: heads must lie behind each other")
    kind = gl.bfloat16 if q.dtype == torch.bfloat16 else gl.float16
    groups = 2 if D == 128 else 3  # as many as registers allow

    def described(x, rows):
        layout = gl.NVMMASharedLayout.get_default_for([rows, D], kind)
        return GluonDescriptor.from_tensor(x.view(-1, D), [rows, D], layout)

    specialised_kernel[(triton.cdiv(N, 64 * groups), H)](
        described(q, 64), described(k, BLOCK_N), described(v, BLOCK_N), described(out, 64), lse, N,
        LOG2_E.value * D**-0.5, H // HK, D=D, BLOCK_N=BLOCK_N, CAUSAL=bool(causal), STAGES=STAGES, GROUPS=groups,
        num_warps=4,
    )  # fmt: skip


if lab.device.runs(90):
    attention.claims(specialised)


# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** A tile of 128 × 64 scores costs 2·2·128·64·128 FLOPs in the tensor cores for D = 128, and as many powers
# of two as it has scores. An SM of an H200 does 4096 FLOPs and 16 powers of two in a clock. How long do the two take,
# and what does that say about D = 64, and about kernels that do one after the other?
#
# ### BEGIN SOLUTION
# Products: 4 194 304 / 4096 = 1024 clocks. Powers of two: 8192 / 16 = 512 clocks, and the maximum, the sum and the
# conversions come on top. One after the other, tensor cores would idle for a third of the time or more. For D = 64 the
# products take 512 clocks, as long as the powers of two, so it is harder to be fast. Hence the tricks of the next
# section: let one tile's softmax run while another tile's product does.
# ### END SOLUTION

# %% [markdown]
# **What FlashAttention 2, 3 and 4 changed.** *1* (2022): tiles, online softmax, no N × N in memory; its outer loop ran
# over keys. *2* (2023) swapped the loops, as your level 1 does: each block of queries is a program of its own, which
# rescales acc but divides once, at the end. *3* (2024, Hopper) gives loads to a warp of their own, lets two groups of
# warps take turns with the tensor cores ("ping-pong"), and starts the next q kᵀ before this softmax. Triton on Hopper
# does not order its products like that; two programs on an SM hide part of it. *4* (2025, Blackwell), where products
# became twice as fast and exp2 did not, computes part of the powers of two as polynomials, and skips rescaling when the
# maximum hardly grew.
#
# **Next levels.** `18_flash_backward` uses the lse; `19_decode_attention` splits the keys of one query over programs;
# `20_flash_cuda` writes the products by hand. Try a window
# of the last W keys: which bound of which loop changes?
#
# **In practice** you call `torch.nn.functional.scaled_dot_product_attention`, or `flex_attention` for a mask of your
# own.
#
# **Reading.** FlashAttention [1](https://arxiv.org/abs/2205.14135), [2](https://arxiv.org/abs/2307.08691),
# [3](https://arxiv.org/abs/2407.08608), [4](https://arxiv.org/abs/2603.05451).
# [Online normalizer calculation for softmax](https://arxiv.org/abs/1805.02867): where (m, l) comes from.

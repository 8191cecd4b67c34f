# %% [markdown]
# # A loss without logits
#
# **You will** compute the loss of a language model, and its gradient, without its largest matrix: the
# [logits](../glossary.md#logits).
#
# **You will learn to**
#
# - find the matrices that determine the peak memory of a training step;
# - compute a loss and its gradient in [chunks](../glossary.md#chunk), in one pass and in little memory.
#
# **You need** `12_online_softmax` and `14_matmul_triton_persistent`. About 60 minutes. Works without a GPU; only
# timings need one.
#
# ## 1 The largest matrix
#
# After the last block, a language model multiplies each row of x by the *head* w. The product, the logits z = x wᵀ, has
# one column for each word of the [vocabulary](../glossary.md#vocabulary). The loss is the
# [cross-entropy](../glossary.md#cross-entropy): the [log-sum-exp](../glossary.md#log-sum-exp) of a row minus the logit
# of the word that came next, the *target*. The loss of the model is the mean over all rows with a target; `count` is
# their number. A row whose target is −100 has no target and is ignored.
#
# In PyTorch, `cross_entropy(x @ w.T, targets)` and its backward pass hold three matrices of `rows` × `vocabulary`
# elements at the same time: the logits or their log-softmax, and two gradients. But the gradient of x does not need the
# whole logits. With p = softmax(z), row i of the gradient is
#
# $$dx_i = \frac{1}{\text{count}} \Big( \sum_v p_{iv}\, w_v - w_{\text{target}_i} \Big)$$
#
# The sum is [attention](../glossary.md#attention): x is the query, and w holds both keys and values. So the loop of
# `17_flash_attention` works here, too. Process the vocabulary in chunks. For each chunk, compute its logits, and update
# the maximum m, the sum l and the accumulators of dx.
#
# **Predict** the memory, in bytes, beyond x, w and dx:
#
# - `whole`: three matrices of rows × vocabulary elements in 2 bytes;
# - `chunked`: the logits of one chunk in 2 bytes, and accumulators for dx in 4 bytes. Count nothing that has only one
#   number per row.
#
# <details><summary>Hint 1</summary>The logits of one chunk have rows × chunk elements.</details>
# <details><summary>Hint 2</summary>dx has rows × width elements. All chunks use the same memory.</details>
# <details><summary>Hint 3</summary>Return two products of sizes; nothing needs to be rounded.</details>

# %% cell="setup"


# %% cell="solution" id="peak_bytes"
def peak_bytes(rows, width, vocabulary, chunk):
    """Return (whole, chunked) in bytes."""
    ### BEGIN SOLUTION
    return 3 * 2 * rows * vocabulary, 2 * rows * chunk + 4 * rows * width
    ### END SOLUTION


# %% cell="check" exercise="24_loss/peak_bytes"
lab.check("24_loss/peak_bytes")

# %% cell="given" id="matmuls"
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from labutils import blocks

IGNORED = tl.constexpr(-100)


@triton.jit
def tile_of(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Return (row, column) of a tile, in the grouped ordering of unit 14."""
    first = tile // (GROUP_M * tiles_n) * GROUP_M
    rows, within = tl.minimum(tiles_m - first, GROUP_M), tile % (GROUP_M * tiles_n)
    return first + within % rows, within // rows


@triton.jit
def logits_kernel(
    x_desc, w_desc, z_desc, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, PROGRAMS: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    """z = x @ w.T: the persistent kernel of `14_matmul_triton_persistent`."""
    tiles_m, tiles_n, steps = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), tl.cdiv(K, BLOCK_K)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=FLATTEN):
        m, n = tile_of(tile, tiles_m, tiles_n, GROUP_M)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(steps):
            a, b = x_desc.load([m * BLOCK_M, k * BLOCK_K]), w_desc.load([n * BLOCK_N, k * BLOCK_K])
            acc = tl.dot(a, b.T, acc)
        z_desc.store([m * BLOCK_M, n * BLOCK_N], acc.to(z_desc.dtype))


@triton.jit
def accumulate_kernel(
    p_desc, w_desc, acc_ptr, factor_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, PROGRAMS: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    """acc = acc * factor + p @ w, with one factor for each row."""
    tiles_m, tiles_n, steps = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), tl.cdiv(K, BLOCK_K)
    for tile in range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS):
        m, n = tile_of(tile, tiles_m, tiles_n, GROUP_M)
        rows, columns = m * BLOCK_M + tl.arange(0, BLOCK_M), n * BLOCK_N + tl.arange(0, BLOCK_N)
        mask = (rows[:, None] < M) & (columns[None, :] < N)
        acc_ptrs = acc_ptr + rows[:, None].to(tl.int64) * N + columns[None, :]
        factor = tl.load(factor_ptr + rows, mask=rows < M, other=0.0)
        acc = tl.load(acc_ptrs, mask=mask, other=0.0) * factor[:, None]
        for k in range(steps):
            a, b = p_desc.load([m * BLOCK_M, k * BLOCK_K]), w_desc.load([k * BLOCK_K, n * BLOCK_N])
            acc = tl.dot(a, b, acc)
        tl.store(acc_ptrs, acc, mask=mask)


@triton.jit
def count_kernel(target_ptr, count_ptr, M, BLOCK: tl.constexpr):
    """Count the rows that are not ignored. One program."""
    count = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, M, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        count += (tl.load(target_ptr + offs, mask=offs < M, other=IGNORED) != IGNORED).to(tl.int32)
    tl.store(count_ptr, tl.sum(count))


@triton.jit
def sum_kernel(rows_ptr, loss_ptr, M, BLOCK: tl.constexpr):
    """Add the losses of all rows. One program."""
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, M, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        total += tl.load(rows_ptr + offs, mask=offs < M, other=0.0)
    tl.store(loss_ptr, tl.sum(total))


def chunk_of(M, V):
    return 64 if M * V < 2**20 else 16_384


def tile_config(M, N):
    gpu = lab.device.current()
    if M * N < 2**16:
        return dict(BLOCK_M=32, BLOCK_N=32, BLOCK_K=32, GROUP_M=4, FLATTEN=False, num_warps=4, num_stages=2)
    if gpu and gpu.capability[0] == 9:
        return dict(BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, GROUP_M=8, FLATTEN=True, num_warps=8, num_stages=3)
    return dict(BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, GROUP_M=8, FLATTEN=False, num_warps=4, num_stages=3)


def multiply(kernel, a, b, by_columns, M, N, K, *rest):
    """Launch logits_kernel or accumulate_kernel. `by_columns`: b is stored (N, K)."""
    config, gpu = tile_config(M, N), lab.device.current()
    m, n, k = config["BLOCK_M"], config["BLOCK_N"], config["BLOCK_K"]
    programs = min(gpu.sms if gpu else 4, triton.cdiv(M, m) * triton.cdiv(N, n))
    a_desc = TensorDescriptor.from_tensor(a, [m, k])
    b_desc = TensorDescriptor.from_tensor(b, [n, k] if by_columns else [k, n])
    rest = [TensorDescriptor.from_tensor(r, [m, n]) if r.dtype == a.dtype else r for r in rest]
    kernel[(programs,)](a_desc, b_desc, *rest, M, N, K, PROGRAMS=programs, **config)


# %% [markdown]
# ## 2 A loss in chunks
#
# `linear_cross_entropy` below calls five kernels. You write two of them. For each chunk, in order:
#
# 1. `logits_kernel` computes the chunk's logits, z. It is a matmul.
# 2. **`chunk_kernel`** updates m and l of each row, as in `12_online_softmax`. It overwrites z with the weights exp(z −
#    m), where m is the *new* maximum. It stores the factor exp(m_old − m) of each row. If the chunk has the row's
#    target, it also stores the target's logit.
# 3. `accumulate_kernel` multiplies the accumulators by the factors, and adds the matrix product of the weights exp(z −
#    m) and w.
#
# After the last chunk, **`finish_kernel`** computes each row's share of the loss, (m + log l − target's logit) / count,
# and its row of dx, (acc / l − row of w of the target) / count. Both are 0 for a row that is ignored. `count` is the
# number of rows that are not ignored.
#
# | argument | shape | meaning |
# |---|---|---|
# | `z_ptr` | (M, chunk) | logits of this chunk in `width` columns; rows are `stride_zm` elements apart |
# | `target_ptr` | (M,) | column of the target in the whole vocabulary, or −100; int32 |
# | `m_ptr`, `l_ptr` | (M,) | maximum and sum so far, fp32; before the first chunk -inf and 0 |
# | `t_ptr` | (M,) | logit of the target, fp32 |
# | `factor_ptr` | (M,) | output: exp(m_old − m), fp32 |
# | `start`, `width` | numbers | the chunk has columns `start` to `start + width - 1` of the vocabulary |
# | `acc_ptr` | (M, D) | Σ exp(z − m) · w over all chunks, fp32, contiguous |
# | `w_ptr`, `dx_ptr` | (V, D), (M, D) | the head, and the gradient of x; rows are `stride_wv`, `stride_dm` apart |
# | `rows_ptr`, `count_ptr` | (M,), (1,) | output: each row's share of the loss, fp32; count, int32 |
#
# Use this table when the check fails:
#
# | diagnosis | common cause |
# |---|---|
# | `wrong-formula`, not rescaled | l is not multiplied by the factor, or the stored factor is wrong |
# | `overflow` | the weights use the old maximum, which starts at -inf; or the factor is upside down |
# | `padded-lanes` | logits past `width` are 0, but must be -inf |
# | `out-of-bounds` | row −100 of w was loaded for a row that is ignored |
# | "divides by the number of all rows" | `count` has only rows that are not ignored |
#
# <details><summary>Hint 1</summary>Load the chunk's row once, as fp32, with -inf past <code>width</code>. One program
# has the whole row of the chunk, so this kernel has no loop.</details>
# <details><summary>Hint 2</summary>The target's logit is <code>tl.sum(tl.where(start + offs == target, z, 0.0))</code>.
# Store it only if <code>start &lt;= target &lt; start + width</code>, so that another chunk does not overwrite
# it.</details>
# <details><summary>Hint 3</summary>In <code>finish_kernel</code>, <code>target</code> may be −100. Do not load row −100
# of w: use <code>tl.maximum(target, 0)</code>, and use <code>tl.where</code> to store 0 for this row.</details>


# %% cell="solution" id="chunk_kernel"
@triton.jit
def chunk_kernel(
    z_ptr, target_ptr, m_ptr, l_ptr, t_ptr, factor_ptr, start, width, stride_zm, BLOCK: tl.constexpr
):  # fmt: skip
    """Update m, l and the target's logit of one row, and overwrite the row's logits by exp(z - m).

    z_ptr                        (M, chunk)  logits on entry, weights on exit
    m_ptr, l_ptr, t_ptr          (M,)        so far; updated
    factor_ptr                   (M,)        output: exp(old m - new m)
    One program handles one row. BLOCK is at least width.
    """
    row = tl.program_id(0).to(tl.int64)
    offs = tl.arange(0, BLOCK)
    ### BEGIN SOLUTION
    z_ptrs = z_ptr + row * stride_zm + offs
    mask = offs < width
    z = tl.load(z_ptrs, mask=mask, other=-float("inf")).to(tl.float32)
    m = tl.load(m_ptr + row)
    m_new = tl.maximum(m, tl.max(z))
    p, factor = tl.exp(z - m_new), tl.exp(m - m_new)
    tl.store(z_ptrs, p, mask=mask)
    tl.store(l_ptr + row, tl.load(l_ptr + row) * factor + tl.sum(p))
    tl.store(m_ptr + row, m_new)
    tl.store(factor_ptr + row, factor)
    target = tl.load(target_ptr + row)
    if (target >= start) & (target < start + width):
        tl.store(t_ptr + row, tl.sum(tl.where(start + offs == target, z, 0.0)))
    ### END SOLUTION


@triton.jit
def finish_kernel(
    acc_ptr, w_ptr, target_ptr, m_ptr, l_ptr, t_ptr, count_ptr, rows_ptr, dx_ptr, D, stride_wv, stride_dm,
    BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Store a row's share of the loss, and its row of dx.

    acc_ptr (M, D), w_ptr (V, D), dx_ptr (M, D); the others as in chunk_kernel
    One program handles one row. BLOCK_D is at least D.
    """
    row = tl.program_id(0).to(tl.int64)
    offs = tl.arange(0, BLOCK_D)
    ### BEGIN SOLUTION
    mask = offs < D
    target, count = tl.load(target_ptr + row), tl.load(count_ptr)
    counts = target != IGNORED
    l = tl.load(l_ptr + row)
    share = (tl.load(m_ptr + row) + tl.log(l) - tl.load(t_ptr + row)) / count
    tl.store(rows_ptr + row, tl.where(counts, share, 0.0))
    acc = tl.load(acc_ptr + row * D + offs, mask=mask)
    w = tl.load(w_ptr + tl.maximum(target, 0).to(tl.int64) * stride_wv + offs, mask=mask).to(tl.float32)
    tl.store(dx_ptr + row * stride_dm + offs, tl.where(counts, (acc / l - w) / count, 0.0), mask=mask)
    ### END SOLUTION


def linear_cross_entropy(x, w, targets, loss, dx, chunk=None):
    (M, D), V = x.shape, len(w)
    chunk = chunk or chunk_of(M, V)
    x, w = lab.aligned(x), lab.aligned(w)
    numbers = dict(device=x.device, dtype=torch.float32)
    z, acc = torch.empty(M, chunk, dtype=x.dtype, device=x.device), torch.zeros(M, D, **numbers)
    m, l, t = torch.full((M,), -float("inf"), **numbers), torch.zeros(M, **numbers), torch.zeros(M, **numbers)
    factor, rows = torch.empty(M, **numbers), torch.empty(M, **numbers)
    count = torch.empty(1, dtype=torch.int32, device=x.device)
    warps = 16 if chunk > 4096 else 4
    count_kernel[(1,)](targets, count, M, BLOCK=1024)
    for start in range(0, V, chunk):
        part = w[start : start + chunk]
        width = len(part)
        weights = z[:, :width]
        multiply(logits_kernel, x, part, True, M, width, D, weights)
        chunk_kernel[(M,)](z, targets, m, l, t, factor, start, width, chunk, BLOCK=chunk, num_warps=warps)
        multiply(accumulate_kernel, weights, part, False, M, D, width, acc, factor)
    finish_kernel[(M,)](acc, w, targets, m, l, t, count, rows, dx, D, w.stride(0), dx.stride(0),
                        BLOCK_D=triton.next_power_of_2(D), num_warps=8)  # fmt: skip
    sum_kernel[(1,)](rows, loss, M, BLOCK=1024)


# %% cell="check" exercise="24_loss/linear_cross_entropy"
lab.tiny("24_loss/linear_cross_entropy")
lab.check("24_loss/linear_cross_entropy")

# %%
print(lab.benchmark("24_loss/linear_cross_entropy", linear_cross_entropy) or "")
blocks.loss_memory(linear_cross_entropy, peak_bytes)

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Your loss computes each chunk of logits once. Why does it not need these logits again for dx? Which
# numbers would you need to compute the gradient of w, and after which chunk do you know them? How many matmuls of
# 2·M·V·D FLOPs does PyTorch's eager code do for the loss and dx, and how many does yours?
#
# ### BEGIN SOLUTION
# The weights exp(z − m) of a chunk are added to acc at once, relative to the maximum so far. A later maximum only
# rescales acc by one factor per row, and so does the division by l at the end. Both factors can leave the sum over the
# vocabulary. The gradient of w is a sum over *rows*, with p of each row inside: row v needs Σ_i p_iv x_i. The factors
# of the rows differ, so they cannot leave this sum, and the last ones are known only after the last chunk. A second
# pass must compute the logits again, from the stored log-sum-exp. For loss and dx, both versions do two matmuls.
# ### END SOLUTION

# %% [markdown]
# **Next.** Compute the gradient of w in a second pass over the chunks, with p = exp(z − lse). Or split the *rows* into
# chunks instead: then the logits of one chunk are complete, and both gradients need only one pass.
#
# **In practice**, Liger Kernel and Apple's Cut Cross-Entropy compute this loss without whole logits.
#
# **Reading.** [Cut Your Losses in Large-Vocabulary Language Models](https://arxiv.org/abs/2411.09009). [Online
# normalizer calculation for softmax](https://arxiv.org/abs/1805.02867).

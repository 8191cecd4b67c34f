# %% [markdown]
# # A loss without logits
#
# **You will** compute the loss of a language model, and the loss's gradient, without storing the largest matrix: the
# [logits](../glossary.md#logits).
#
# **You will learn to**
#
# - find the matrices that determine the peak memory of a training step;
# - compute a loss and its gradient in [chunks](../glossary.md#chunk): in one pass, and with little memory.
#
# **You need** `12_online_softmax` and `14_matmul_triton_persistent`. About 60 minutes. You need a GPU only to measure
# times.
#
# ## 1 The largest matrix
#
# The last matrix of weights in a language model is its *output head* w. Let x be the output of the previous layers,
# with one row per token. Then the logits are z = x wᵀ, with one row per token and one column for each word of the
# [vocabulary](../glossary.md#vocabulary). The *target* of a row is the word that really came next. The row's loss is
# the [cross-entropy](../glossary.md#cross-entropy): the [log-sum-exp](../glossary.md#log-sum-exp) of its logits minus
# the target's logit. Rows with −100 instead of a target are ignored. The loss of the model is the mean loss of the
# other rows; `count` is the number of these rows.
#
# In PyTorch, `cross_entropy(x @ w.T, targets)` and its backward pass hold three matrices of `rows` × `vocabulary`
# elements at the same time: the log-softmax, its gradient and the gradient of the logits. But dx, the gradient of x,
# does not need all logits at once. With p = softmax(z), row i of dx is
#
# $$dx_i = \frac{1}{\text{count}} \Big( \sum_v p_{iv}\, w_v - w_{\text{target}_i} \Big)$$
#
# The sum over all words v is [attention](../glossary.md#attention): x holds the queries, and w is both the keys and the
# values. So the loop of `17_flash_attention` works here, too: process the vocabulary in chunks of columns. For each
# chunk, compute its logits, and update each row's maximum m, sum l and accumulators of dx.
#
# **Predict** the memory in bytes, in addition to x, w and dx:
#
# - `whole`: the three matrices above, with 2 bytes per element;
# - `chunked`: the logits of one chunk with 2 bytes per element, and the accumulators of dx with 4 bytes per element. Do
#   not count arrays with one number per row, such as m.
#
# <details><summary>Hint 1</summary>The logits of one chunk are a matrix of rows × chunk elements.</details>
# <details><summary>Hint 2</summary>dx has the shape of x: rows × width elements. All chunks use the same
# memory.</details>
# <details><summary>Hint 3</summary><code>whole</code> is one product of sizes, and <code>chunked</code> is the sum of
# two products.</details>

# %% cell="setup"


# %% cell="solution" id="peak_bytes"
def peak_bytes(rows, width, vocabulary, chunk):
    """Return (whole, chunked) in bytes. x has shape (rows, width), and a chunk has `chunk` columns."""
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
    """acc = acc * factor + p @ w. Each row has its own factor."""
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
    """Launch logits_kernel or accumulate_kernel. If by_columns, b has the shape (N, K), else (K, N)."""
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
# `linear_cross_entropy` below launches six different kernels. From here on, x has M rows and D columns, V is the size
# of the vocabulary, and `width` is the number of words in a chunk. You write the two in bold below. First,
# `count_kernel` counts the rows that have a target. Then, for each chunk:
#
# 1. `logits_kernel` computes the chunk's logits z with a matmul.
# 2. **`chunk_kernel`** updates m and l of each row, as in `12_online_softmax`. It overwrites z with the unnormalized
#    softmax weights exp(z − m), where m is the *new* maximum, and stores each row's factor exp(m_old − m). If the row's
#    target is in this chunk, it also stores the target's logit.
# 3. `accumulate_kernel` multiplies each row of the accumulators by its factor, and adds the matrix product of these
#    softmax weights and the chunk's rows of w.
#
# After the last chunk, **`finish_kernel`** computes two results for each row i: the row's share of the loss, (m + log l
# − t) / count, where t is the target's logit; and row i of dx, (acc / l − w[target]) / count. Both are 0 for a row
# without a target. `sum_kernel` adds the shares.
#
# | argument | shape | meaning |
# |---|---|---|
# | `z_ptr` | (M, chunk) | logits of this chunk, in the first `width` columns; rows are `stride_zm` elements apart |
# | `target_ptr` | (M,) | index of the target in the whole vocabulary, or −100; int32: use `tl.int64` to address w |
# | `m_ptr`, `l_ptr` | (M,) | maximum and sum of the chunks so far, fp32; at first -inf and 0 |
# | `t_ptr` | (M,) | logit of the target, fp32 |
# | `factor_ptr` | (M,) | output: exp(m_old − m), fp32 |
# | `start`, `width` | numbers | this chunk: words `start` to `start + width - 1`; the last chunk may be narrower |
# | `acc_ptr` | (M, D) | Σ exp(z − m) · w over all chunks, fp32, contiguous |
# | `w_ptr`, `dx_ptr` | (V, D), (M, D) | w and dx; rows are `stride_wv` and `stride_dm` elements apart |
# | `rows_ptr` | (M,) | output: each row's share of the loss, fp32 |
# | `count_ptr` | (1,) | number of rows with a target, int32 |
#
# Use this table when the check fails:
#
# | diagnosis | common cause |
# |---|---|
# | `wrong-formula`: "not rescaled" | l is not multiplied by the factor, or the stored factor is wrong |
# | `overflow` | the weights use the old maximum, which is -inf at first; or the factor is exp(m − m_old) |
# | `padded-lanes` | lanes past `width` got 0 instead of -inf |
# | `out-of-bounds` | for a row without a target, row −100 of w is loaded |
# | "divides by the number of all rows" | rows without a target are counted, too; `count_ptr` has the right number |
#
# <details><summary>Hint 1</summary>Load the program's row of z once, convert it to fp32, and use -inf past
# <code>width</code>. The row fits into one block of elements, so this kernel has no loop.</details>
# <details><summary>Hint 2</summary>The target's logit is <code>tl.sum(tl.where(start + offs == target, z, 0.0))</code>.
# Store it only if <code>start &lt;= target &lt; start + width</code>; otherwise each later chunk overwrites
# it.</details>
# <details><summary>Hint 3</summary>In <code>finish_kernel</code>, <code>target</code> may be −100. Load row
# <code>tl.maximum(target, 0)</code> of w: this row always exists. Use <code>tl.where</code> to store 0 if there is no
# target.</details>


# %% cell="solution" id="chunk_kernel"
@triton.jit
def chunk_kernel(
    z_ptr, target_ptr, m_ptr, l_ptr, t_ptr, factor_ptr, start, width, stride_zm, BLOCK: tl.constexpr
):  # fmt: skip
    """Update m, l and the target's logit of one row, and overwrite the row's logits by exp(z - m).

    z_ptr                        (M, chunk)  logits on entry, weights on exit
    m_ptr, l_ptr, t_ptr          (M,)        values of earlier chunks on entry, updated on exit
    factor_ptr                   (M,)        output: exp(m_old - m)
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

    The table above has the shapes of all arguments.
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
lab.claims("24_loss")  # a two-minute quiz: predict each number, then compare
print(lab.benchmark("24_loss/linear_cross_entropy", linear_cross_entropy) or "")
blocks.loss_memory(linear_cross_entropy, peak_bytes)

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Your kernels compute each chunk of logits once. Why is this enough for dx? The gradient of w needs the
# probabilities p. Which numbers do you need to compute p from the logits, and after which chunk do you know these
# numbers? How many matmuls of 2·M·V·D FLOPs do the loss and dx need in PyTorch's eager mode, and how many in your
# version?
#
# ### BEGIN SOLUTION
# The product of a chunk's weights exp(z − m) and w is added to acc at once, relative to the maximum so far. A later
# maximum only multiplies the row of acc by a factor, and the division by l at the end is another factor. Each factor
# belongs to a row, so it can be moved out of the sum over the vocabulary. The gradient of w is a sum over *rows*: row v
# is Σ_i p_iv x_i, without the targets' part. Its terms have different factors, which cannot be moved out of the sum. So
# p is needed itself: exp(z − lse), and lse = m + log l is known only after the last chunk. A second pass must compute
# the logits again. For the loss and dx, both versions do two matmuls.
# ### END SOLUTION

# %% [markdown]
# **Next.** Compute the gradient of w in a second pass over the chunks, with p = exp(z − lse) and lse = m + log l. Or
# make chunks of *rows* instead: each chunk then has the complete logits of its rows, so one pass gives both gradients.
#
# **In practice**, the libraries Liger Kernel and Cut Cross-Entropy compute this loss without storing all logits at
# once.
#
# **Reading.** [Cut Your Losses in Large-Vocabulary Language Models](https://arxiv.org/abs/2411.09009). [Online
# normalizer calculation for softmax](https://arxiv.org/abs/1805.02867).

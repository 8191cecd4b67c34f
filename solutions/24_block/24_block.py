# %% [markdown]
# # Plan the kernels of a transformer block, and train without logits
#
# **You will** decide which operations of a [transformer block](../glossary.md#transformer-block) share a
# [kernel](../glossary.md#kernel). Then you write the loss of a language model without its largest matrix, the
# [logits](../glossary.md#logits).
#
# **You will learn to**
#
# - count the bytes that a set of kernels moves;
# - tell which operations can share a kernel, and which cannot;
# - write the search that a compiler uses to choose kernels;
# - compute a loss and its gradient in [chunks](../glossary.md#chunk), in one pass and in little memory.
#
# **You need** `12_online_softmax`, `13_fusion` and `17_flash_attention`. About 90 minutes. Works without a GPU; only
# timings need one. `24_capstone` continues with the whole block.
#
# ## 1 A block is a graph
#
# A transformer block is a graph of operations. The [nodes](../glossary.md#node) below are those of a block of Llama 3,
# for 8 sequences of 2048 tokens. Each result has one row per token. A node has a `kind`:
#
# | kind | what it computes | nodes |
# |---|---|---|
# | `input` | nothing: its rows are in memory | `x` |
# | `row` | one number from each row, or from every `over` columns of a row | `rms1`, `rms2`: 1 / root mean square |
# | `elementwise` | each element from elements of the same row and head | `scale1`, `rope`, `swiglu`, … |
# | `matmul` | each row times a matrix of weights | `qkv`, `out`, `gate_up`, `down` |
# | `attention` | each row from all rows of its sequence | `attention` |
#
# So RMSNorm is two nodes here: `rms1` computes one factor per row, and `scale1` multiplies the row by the factor and by
# the norm's weights. `rope` rotates queries and keys by an angle that grows with the position of the token. `swiglu`
# multiplies one half of its input by the SiLU of the other half. `residual1` and `residual2` add the input of a branch
# to its result.
#
# A *partition* puts each node (except inputs) into exactly one kernel. A kernel reads what its nodes need from memory,
# keeps intermediate results on the chip, and stores what leaves it.
#
# **Predict.** `traffic` returns the bytes that all kernels of a partition move:
#
# - A kernel reads each result that its nodes need and that it does not compute itself. It reads each only once.
# - A kernel stores each of its results that another kernel needs. It also stores a result that no node needs, because
#   this is a result of the block.
#
# Weights are left out. Each weight is read once in every partition.
#
# <details><summary>Hint 1</summary>Handle one kernel at a time. Collect the names that it reads in a set, and the names
# that it stores in another set.</details>
# <details><summary>Hint 2</summary>The readers of a node are all nodes that have its name in their
# <code>inputs</code>.</details>
# <details><summary>Hint 3</summary>A result stays on the chip only if it has readers, and all of them are in the same
# kernel.</details>

# %% cell="setup"

# %% cell="given" id="graph"
import itertools

from labutils import blocks

graph = blocks.graph()
blocks.show(graph)
print(graph["rms1"])


# %% cell="solution" id="traffic"
def traffic(graph, kernels):
    """Return the bytes that the kernels read and store.

    graph    name -> {"kind": ..., "inputs": [names], "columns": ..., "bytes": bytes of the result}
    kernels  a list of lists of names
    """
    ### BEGIN SOLUTION
    total = 0
    for kernel in kernels:
        moved = {i for name in kernel for i in graph[name]["inputs"] if i not in kernel}
        for name in kernel:
            readers = [other for other in graph if name in graph[other]["inputs"]]
            if not readers or any(r not in kernel for r in readers):
                moved.add(name)
        total += sum(graph[name]["bytes"] for name in moved)
    return total
    ### END SOLUTION


# %% cell="check" exercise="24_block/traffic"
lab.check("24_block/traffic")

# %% [markdown]
# ## 2 Choose the kernels
#
# Which nodes can share a kernel? A kernel without a matmul gives whole rows to each program, so all its nodes fit. A
# program of a matmul computes a [tile](../glossary.md#tile) of 128 rows and at most 256 columns. These are the rules:
#
# 1. **No cycle.** A kernel starts when all its inputs are in memory. Two kernels must not wait for each other.
# 2. **One matmul.** A kernel has at most one `matmul` or `attention`.
# 3. **Behind it** (the [epilogue](../glossary.md#epilogue)), elementwise nodes are allowed. A `row` node is allowed
#    only if `over` is at most 256: a program never holds a whole row of 4096 columns.
# 4. **Before a matmul** (the [prologue](../glossary.md#prologue)), elementwise nodes are allowed. They run in the loop
#    along K, when a tile of the input is loaded. Every column of tiles computes them again, so their results cannot be
#    stored for other kernels.
# 5. **A norm before a matmul.** The loop along K reads whole rows, so it can also compute the root mean square of each
#    row. The factor of a row is known only after the loop. But the factor multiplies the whole row, so it can multiply
#    the row of the *product* instead. This works only for the chain `row`, elementwise, `matmul` with nothing between,
#    and only if the `row` node reduces all columns that the loop reads.
# 6. **Nothing before attention**, because it reads keys and values that other programs compute.
#
# **Predict.** How few kernels can the block have? Which results must be stored?
#
# Write `partition`, which finds kernels for any such graph. The check uses blocks that differ from this one, such as
# blocks whose attention and MLP run in parallel, or blocks with norms elsewhere. Your partition may move at most 2 %
# more bytes than the best one. `blocks.problem(graph, kernels)` returns the violated rule as a sentence, or None.
#
# <details><summary>Hint 1</summary>Start with one kernel for each node. Merge two kernels at a time.</details>
# <details><summary>Hint 2</summary>Try all pairs of kernels. Of all merges that break no rule, keep the one after which
# your <code>traffic</code> is smallest.</details>
# <details><summary>Hint 3</summary>Stop when no merge lowers the traffic. <code>itertools.combinations(kernels,
# 2)</code> gives all pairs.</details>


# %% cell="solution" id="partition"
def partition(graph):
    """Return kernels, as lists of names, that compute the graph and move few bytes."""
    ### BEGIN SOLUTION
    kernels = [[name] for name in graph if graph[name]["kind"] != "input"]
    while True:
        best = kernels
        for a, b in itertools.combinations(kernels, 2):
            merged = [k for k in kernels if k is not a and k is not b] + [a + b]
            if traffic(graph, merged) < traffic(graph, best) and blocks.problem(graph, merged) is None:
                best = merged
        if best is kernels:
            return kernels
        kernels = best
    ### END SOLUTION


# %% cell="check" exercise="24_block/partition"
lab.check("24_block/partition")

# %%
blocks.show(graph, partition(graph))

# %% [markdown]
# | what the check prints | common cause |
# |---|---|
# | `a cycle` | two kernels were merged although a third one lies between them |
# | `a tile of … has only 256` | a norm was merged with the matmul before it |
# | `no kernel stores it` | a norm that two matmuls read was merged with one of them |
# | "merging … saves" | the search stopped too early, or does not try every pair |
#
# `torch.compile` works like your `partition`: its scheduler scores pairs of nodes by the bytes that a merge saves, and
# checks rules. But it calls a library for most matmuls, and fuses nothing into those. The printed table shows what that
# costs in bytes. Fewer bytes are not always less time: a matmul is compute-bound, and a prologue can slow its loop
# down. So measure each fusion, as you will do in `24_capstone`.

# %% [markdown]
# ## 3 The largest matrix
#
# After the last block, a language model multiplies each row of x by the *head* w. The product, the logits z = x wᵀ, has
# one column for each word of the [vocabulary](../glossary.md#vocabulary). The loss is the
# [cross-entropy](../glossary.md#cross-entropy): the [log-sum-exp](../glossary.md#log-sum-exp) of a row minus the logit
# of the word that came next, the *target*. The loss is the mean over all rows with a target. Rows whose target is −100
# have none: they are ignored.
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


# %% cell="solution" id="peak_bytes"
def peak_bytes(rows, width, vocabulary, chunk):
    """Return (whole, chunked) in bytes."""
    ### BEGIN SOLUTION
    return 3 * 2 * rows * vocabulary, 2 * rows * chunk + 4 * rows * width
    ### END SOLUTION


# %% cell="check" exercise="24_block/peak_bytes"
lab.check("24_block/peak_bytes")

# %% cell="given" id="matmuls"
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

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
# ## 4 A loss in chunks
#
# `linear_cross_entropy` below calls five kernels. You write two of them. For each chunk, in order:
#
# 1. `logits_kernel` computes the chunk's logits, z. It is a matmul.
# 2. **`chunk_kernel`** updates m and l of each row, as in `12_online_softmax`. It overwrites z by the weights exp(z −
#    m), with the *new* m. It stores the factor exp(m_old − m) of each row. If the chunk has the row's target, it also
#    stores the target's logit.
# 3. `accumulate_kernel` multiplies the accumulators by the factors, and adds the product of weights and w.
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
# of w: use <code>tl.maximum(target, 0)</code>, and store 0 in the end with <code>tl.where</code>.</details>


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


# %% cell="check" exercise="24_block/linear_cross_entropy"
lab.tiny("24_block/linear_cross_entropy")
lab.check("24_block/linear_cross_entropy")

# %%
print(lab.benchmark("24_block/linear_cross_entropy", linear_cross_entropy) or "")
blocks.loss_memory(linear_cross_entropy, peak_bytes)

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Your loss computes each chunk of logits once. Why does it not need them again for dx? What would you need
# to compute the gradient of w, and when do you know it? How many matmuls of 2·M·V·D FLOPs does PyTorch's eager code do
# for the loss and dx, and how many does yours?
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

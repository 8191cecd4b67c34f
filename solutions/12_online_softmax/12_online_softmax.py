# %% [markdown]
# # Online softmax: the maximum and the sum of a row in one pass
#
# **You will** derive a formula with which one pass over a row gives the maximum and the sum that a
# [softmax](../glossary.md#softmax) needs. Then you write three kernels with this formula. The first kernel loops along
# a row. The second and the third split each row over many [programs](../glossary.md#program): the second in two
# launches, the third in one.
#
# **You will learn to**
# - compute a row's maximum and sum in one loop, and merge the results of parts of a row in any order;
# - avoid NaN from -inf − -inf when a row begins with -inf;
# - keep a whole GPU busy with only a few long rows;
# - let programs of one launch wait for each other without [deadlock](../glossary.md#deadlock), and reuse data in the
#   [L2 cache](../glossary.md#l2-cache).
#
# **You need** `11_softmax`. About 90 minutes. You need a GPU only to measure times.
#
# ## Derive the update
#
# A softmax seems to need the row's maximum before it can start the sum. In fact it does not. Describe any *part* of a
# row by two numbers: its maximum m and its sum l = Σ exp(x − m). From the pairs (m₁, l₁) and (m₂, l₂) of two parts you
# can compute the pair (m, l) of both parts together. You need not read x again: since exp(x − m) = exp(x − m₁) · exp(m₁
# − m), you only multiply each sum by a factor that does not depend on x. This is the [online
# softmax](../glossary.md#online-softmax) of [Milakov and Gimelshein](https://arxiv.org/abs/1805.02867). The same update
# makes [FlashAttention](../glossary.md#flashattention) possible (`17_flash_attention`).
# [Flash-decoding](../glossary.md#flash-decoding) (`19_decode_attention`) uses this update to split a row over many
# programs.
#
# Write `merged_sum`, which returns the l of both parts together, with m = max(m₁, m₂). A part that contains only -inf
# has m = -inf and l = 0. If both parts contain only -inf, return 0. Remember that -inf − -inf is NaN.

# %% cell="setup"

# %% cell="given" id="launchers"
import math

import torch
import triton
import triton.language as tl

from labutils import clusters, traffic


def online_softmax(x, out, BLOCK_N=4096):
    M, N = x.shape
    online_softmax_kernel[(M,)](x, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N, num_warps=8)


def split_softmax(x, out, lse, BLOCK=8192):
    M, N = x.shape
    parts = triton.cdiv(N, BLOCK)
    m, l = torch.empty(2, M, parts, dtype=torch.float32, device=x.device)
    grid, sizes = (M * parts,), dict(BLOCK=BLOCK, num_warps=16)
    stats_kernel[grid](x, m, l, N, parts, x.stride(0), **sizes)
    BLOCK_P = max(16, triton.next_power_of_2(parts))
    normalize_kernel[grid](x, m, l, out, lse, N, parts, x.stride(0), out.stride(0), BLOCK_P=BLOCK_P, **sizes)


KEPT = 12 * 2**20  # bytes of x that may be read between computing a row's (m, l) and its y (section 3)


def one_launch_softmax(x, out, lse, BLOCK=8192):
    M, N = x.shape
    parts = triton.cdiv(N, BLOCK)
    lag = min(M, max(1, KEPT // (N * x.element_size())))
    m, l = torch.empty(2, M, parts, dtype=torch.float32, device=x.device)
    counters = torch.zeros(1 + M, dtype=torch.int32, device=x.device)
    one_launch_kernel[(2 * parts * (M + lag),)](
        x, m, l, counters, out, lse, M, N, parts, x.stride(0), out.stride(0), lag,
        BLOCK=BLOCK, BLOCK_P=max(16, triton.next_power_of_2(parts)), num_warps=16,
    )  # fmt: skip


# %% cell="solution" id="merged_sum"
def merged_sum(m1, l1, m2, l2):
    """l of both parts together: the sum of exp(x - m) with m = max(m1, m2)."""
    ### BEGIN SOLUTION
    m = max(m1, m2)
    if m == -math.inf:
        return 0.0
    return l1 * math.exp(m1 - m) + l2 * math.exp(m2 - m)
    ### END SOLUTION


# %% cell="check" exercise="12_online_softmax/merged_sum"
lab.check("12_online_softmax/merged_sum")

# %% [markdown]
# ## 1 A loop along the row
#
# A row of 200 000 columns does not fit into one program's [registers](../glossary.md#register). Read the row in blocks
# of `BLOCK_N` columns, and update m and l after each block. Then read the row a second time and store y = exp(x − m) /
# l. The textbook softmax reads x three times instead of twice: for the maximum, for the sum, and for y.
#
# In Triton, a variable must keep its type throughout a loop, so the given lines define `m` and `l` as
# [fp32](../glossary.md#fp32) scalars. A row may *begin* with blocks of -inf. The old maximum m and the new maximum
# m_new are then both -inf, so exp(m − m_new) is NaN, and every later l is NaN too. As in `11_softmax`, x and y are
# fp32, [fp16](../glossary.md#fp16) or [bf16](../glossary.md#bf16), and a row becomes NaN only if all its elements are
# -inf. `N` and the strides are constants, as there.
#
# <details><summary>Hint 1</summary>In each iteration, load a block. Compute <code>m_new</code>, the maximum of
# <code>m</code> and of the block. Rescale <code>l</code> to <code>m_new</code>, as in <code>merged_sum</code>, and add
# the sum of exp(x − m_new) over the block. Then set <code>m</code> to <code>m_new</code>.</details>
# <details><summary>Hint 2</summary>Subtract <code>shift = tl.where(m_new == -float("inf"), 0.0, m_new)</code> instead
# of <code>m_new</code>: exp(-inf − 0) is 0, as required.</details>
# <details><summary>Hint 3</summary>The second loop needs no shift: if <code>m</code> is -inf, the row becomes NaN
# anyway.</details>


# %% cell="solution" id="online_softmax_kernel"
@triton.jit
def online_softmax_kernel(
    x_ptr, out_ptr, N: tl.constexpr, stride_xm: tl.constexpr, stride_om: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """Softmax of each row, in blocks.

    out[m, n] = exp(x[m, n] - max) / sum_k exp(x[m, k] - max), where max = max_k x[m, k]

    x_ptr    (M, N)  input; rows are stride_xm elements apart
    out_ptr  (M, N)  output; rows are stride_om elements apart
    One program computes one row, m = pid.
    """
    row = tl.program_id(0).to(tl.int64)  # 64 bits: row · stride may exceed 2^31
    x_ptr += row * stride_xm
    out_ptr += row * stride_om
    m = tl.full((), -float("inf"), tl.float32)
    l = tl.full((), 0.0, tl.float32)
    ### BEGIN SOLUTION
    for start in tl.range(0, N, BLOCK_N, num_stages=3):
        offs_n = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + offs_n, mask=offs_n < N, other=-float("inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x))
        # a row may start with -inf, and -inf - -inf is NaN
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        l = l * tl.exp(m - shift) + tl.sum(tl.exp(x - shift))
        m = m_new
    for start in tl.range(0, N, BLOCK_N, num_stages=3):
        offs_n = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
        tl.store(out_ptr + offs_n, tl.exp(x - m) / l, mask=offs_n < N)
    ### END SOLUTION


# %% cell="check" exercise="12_online_softmax/online_softmax"
lab.tiny("12_online_softmax/online_softmax")
lab.check("12_online_softmax/online_softmax")


# %%
def in_fours(x, out):
    online_softmax(x, out, BLOCK_N=4)


x = torch.arange(22.0).reshape(2, 11)
title = "your online softmax: 2 rows of 11 elements, blocks of 4"
display(lab.access_map(in_fours, x, torch.empty(2, 11), title=title))
traffic.ledger(
    {  # for each step: (elements read, elements written)
        "three loops": {"max": (22, 0), "sum": (22, 0), "y": (22, 22)},
        "online": {"(m, l)": (22, 0), "y": (22, 22)},
    },
    {"online": traffic.elements(in_fours, x, torch.empty(2, 11))},
    title="Elements moved for 2 rows of 11 elements",
)

# %% [markdown]
# Use this table when a check of this notebook fails:
#
# | diagnosis | common cause |
# |---|---|
# | `overflow` | -inf − -inf gives NaN in a block of -inf at the start of a row, or in a part that is all -inf |
# | `wrong-formula`, with a message about rescaling | l is not multiplied by exp(m − m_new) when the maximum grows |
# | `missing-accumulation` | l or m comes from the last block or part only |
# | `padded-lanes` | elements past the end are 0 instead of -inf; (section 2) entries past the last part are counted |
# | `race` | (section 3) a program reads (m, l) before another program has stored and published them |
# | `timeout` | (section 3) a program waits for a value that the counter never reaches |
#
# ## 2 One row on many programs
#
# With one program per row, sixteen rows of a million elements keep only 16 programs busy, but an H200 runs up to
# {claim: online_h200_programs} programs of 8 warps at once. So split each row into `parts` parts of `BLOCK` elements
# each, with one program per part. A first launch writes (m, l) of each part to memory. In a second launch, each program
# merges the pairs of all parts of its row, which is little work, and then stores its part of y.
#
# The second launch also stores each row's [log-sum-exp](../glossary.md#log-sum-exp), lse = m + log l. A later kernel
# that has lse needs neither m nor l, because y = exp(x − lse). The [backward pass](../glossary.md#backward-pass) of
# attention is such a kernel. A row that is all -inf has lse = -inf.
#
# | argument | shape | meaning |
# |---|---|---|
# | `m_ptr` | (M, parts) | maximum of each part, fp32 |
# | `l_ptr` | (M, parts) | sum of each part, fp32 |
# | `lse_ptr` | (M,) | output: log-sum-exp of each row, fp32 |
# | `BLOCK` | constant | elements per part, a power of two |
# | `BLOCK_P` | constant | a power of two ≥ `parts` |
#
# First write `part_stats` and `merged_stats`, which the kernels of sections 2 and 3 call.
#
# <details><summary>Hint 1</summary><code>part_stats</code> does what one iteration of your first loop in section 1
# does, but with no earlier m and l. <code>merged_stats</code> is <code>merged_sum</code> for a whole vector of
# parts.</details>
# <details><summary>Hint 2</summary>Use m = -inf and l = 0 past the last part: such entries change nothing.</details>
# <details><summary>Hint 3</summary>All programs of a row compute the same lse: let one of them store it.</details>


# %% cell="solution" id="split_kernels"
@triton.jit
def part_stats(x):
    """Return (m, l) of x, the elements of one part. Elements past the end of the row are -inf."""
    ### BEGIN SOLUTION
    m = tl.max(x)
    shift = tl.where(m == -float("inf"), 0.0, m)
    return m, tl.sum(tl.exp(x - shift))
    ### END SOLUTION


@triton.jit
def merged_stats(m, l):
    """Return (m, l) of a whole row. m and l have one element per part; past the last part, m is -inf and l is 0."""
    ### BEGIN SOLUTION
    largest = tl.max(m)
    shift = tl.where(largest == -float("inf"), 0.0, largest)
    return largest, tl.sum(l * tl.exp(m - shift))
    ### END SOLUTION


@triton.jit
def stats_kernel(x_ptr, m_ptr, l_ptr, N: tl.constexpr, parts, stride_xm: tl.constexpr, BLOCK: tl.constexpr):
    """Store m[row, part] and l[row, part] of BLOCK elements of x. One program computes one part of one row."""
    row = (tl.program_id(0) // parts).to(tl.int64)
    part = tl.program_id(0) % parts
    offs_n = part * BLOCK + tl.arange(0, BLOCK)
    ### BEGIN SOLUTION
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=offs_n < N, other=-float("inf")).to(tl.float32)
    m, l = part_stats(x)
    tl.store(m_ptr + row * parts + part, m)
    tl.store(l_ptr + row * parts + part, l)
    ### END SOLUTION


@triton.jit
def normalize_kernel(
    x_ptr, m_ptr, l_ptr, out_ptr, lse_ptr, N: tl.constexpr, parts, stride_xm: tl.constexpr, stride_om: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_P: tl.constexpr
):  # fmt: skip
    """Store exp(x - m) / l of one part of one row, with m and l of the whole row. Store lse[row] = m + log(l)."""
    row = (tl.program_id(0) // parts).to(tl.int64)
    part = tl.program_id(0) % parts
    offs_n = part * BLOCK + tl.arange(0, BLOCK)
    offs_p = tl.arange(0, BLOCK_P)
    ### BEGIN SOLUTION
    ms = tl.load(m_ptr + row * parts + offs_p, mask=offs_p < parts, other=-float("inf"))
    ls = tl.load(l_ptr + row * parts + offs_p, mask=offs_p < parts, other=0.0)
    m, l = merged_stats(ms, ls)
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * stride_om + offs_n, tl.exp(x - m) / l, mask=offs_n < N)
    if part == 0:
        tl.store(lse_ptr + row, m + tl.log(l))
    ### END SOLUTION


# %% cell="check" exercise="12_online_softmax/split_softmax"
lab.tiny("12_online_softmax/split_softmax")
lab.check("12_online_softmax/split_softmax")

# %% [markdown]
# ## 3 One launch, which reads each element from memory only once
#
# The second launch of `split_softmax` reads x after the first launch has read all of x. But 1024 rows of 200 000 floats
# are 800 MB, far more than the L2 cache of an H200 holds ({claim: online_h200_l2}). So the second launch reads x from
# memory again. If instead a row's y is computed soon after the row's *statistics* m and l, the row is still in the L2
# cache. So do both in one launch: while some programs compute the statistics of row r, other programs compute y of an
# earlier row, r − `LAG`. The launcher chooses the number `LAG`.
#
# A program that computes y must wait until the statistics of all parts of its row are stored. If all running programs
# wait for programs that have not started, the launch never ends: a *deadlock*. Programs may start in any order, not
# only in the order of `program_id`. So each program first takes a [ticket](../glossary.md#ticket):
# `tl.atomic_add(counters_ptr, 1)` returns 0 to the first program that calls it, 1 to the second, and so on. All
# programs with lower tickets are then already running or have finished. So if the ticket determines the job, and each
# job waits only for jobs with lower tickets, the launch always ends. (This technique is from [Merrill and
# Garland](https://research.nvidia.com/publication/2016-03_single-pass-parallel-prefix-scan-decoupled-look-back).)
#
# The given code computes the job from the ticket. Count the parts whose statistics are stored: element `1 + row` of
# `counters_ptr` is the counter of a row. The hints use the terms [release and
# acquire](../glossary.md#release-and-acquire) and [eviction policy](../glossary.md#eviction-policy).
#
# <details><summary>Hint 1</summary>Compute the statistics as in <code>stats_kernel</code>. Add 1 to the row's counter
# after the two stores, with <code>tl.atomic_add</code>. This atomic has release semantics: it publishes the two stored
# scalars, because the same thread executes the stores and the atomic. (A tile is stored by all threads of the program:
# before you publish a tile, call <code>tl.debug_barrier()</code>.)</details>
# <details><summary>Hint 2</summary>Wait with <code>while tl.atomic_add(ready_ptr, 0) &lt; parts: pass</code>. This
# atomic has acquire semantics: after it, this program sees what other programs have published. A plain load may return
# an old value forever.</details>
# <details><summary>Hint 3</summary>Then continue as in <code>normalize_kernel</code>. Loads and stores with
# <code>eviction_policy="evict_first"</code> tell the caches that their data is not needed again.</details>


# %% cell="solution" id="one_launch_kernel"
@triton.jit
def one_launch_kernel(
    x_ptr, m_ptr, l_ptr, counters_ptr, out_ptr, lse_ptr, M, N: tl.constexpr, parts, stride_xm: tl.constexpr,
    stride_om: tl.constexpr, LAG, BLOCK: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    """Store the softmax and the log-sum-exp of each row of x, in one launch of 2 · parts · (M + LAG) programs.

    counters_ptr  (1 + M,)  initially 0; element 0 counts tickets, element 1 + r counts the finished parts of row r
    The other arguments are those of stats_kernel and normalize_kernel.
    """
    ticket = tl.atomic_add(counters_ptr, 1)
    step, job = ticket // (2 * parts), ticket % (2 * parts)
    part = job % parts
    offs_n = part * BLOCK + tl.arange(0, BLOCK)
    offs_p = tl.arange(0, BLOCK_P)
    if job < parts:  # statistics of row `step`
        if step < M:
            row = step.to(tl.int64)
            ready_ptr = counters_ptr + 1 + row
            ### BEGIN SOLUTION
            x = tl.load(x_ptr + row * stride_xm + offs_n, mask=offs_n < N, other=-float("inf")).to(tl.float32)
            m, l = part_stats(x)
            tl.store(m_ptr + row * parts + part, m)
            tl.store(l_ptr + row * parts + part, l)
            tl.atomic_add(ready_ptr, 1)  # release: publishes the two stores before it
            ### END SOLUTION
    else:  # output of row `step` - LAG
        if step >= LAG:
            row = (step - LAG).to(tl.int64)
            ready_ptr = counters_ptr + 1 + row
            ### BEGIN SOLUTION
            while tl.atomic_add(ready_ptr, 0) < parts:
                pass
            ms = tl.load(m_ptr + row * parts + offs_p, mask=offs_p < parts, other=-float("inf"))
            ls = tl.load(l_ptr + row * parts + offs_p, mask=offs_p < parts, other=0.0)
            m, l = merged_stats(ms, ls)
            # the last use of x: the L2 may evict it, and need not keep y
            x_ptrs = x_ptr + row * stride_xm + offs_n
            x = tl.load(x_ptrs, mask=offs_n < N, other=0.0, eviction_policy="evict_first").to(tl.float32)
            y = tl.exp(x - m) / l
            tl.store(out_ptr + row * stride_om + offs_n, y, mask=offs_n < N, eviction_policy="evict_first")
            if part == 0:
                tl.store(lse_ptr + row, m + tl.log(l))
            ### END SOLUTION


# %% cell="check" exercise="12_online_softmax/one_launch_softmax"
lab.tiny("12_online_softmax/one_launch_softmax")
lab.check("12_online_softmax/one_launch_softmax")

# %%
lab.claims("12_online_softmax")  # a two-minute quiz: predict each number, then compare
# If a kernel reads x from memory twice, how much longer than a copy must it take? And if it reads x once?
for name in ("online_softmax", "split_softmax", "one_launch_softmax") if lab.device.has_gpu() else ["online_softmax"]:
    print(lab.benchmark(f"12_online_softmax/{name}") or "")

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** For 1024 rows of 200 000 columns in fp32 we measured {claim: online_h200_torch} with `torch.softmax` on
# an H200, {claim: online_h200_one_launch} with `one_launch_softmax` and {claim: online_h200_copy} with a copy. Each
# rate counts one read and one write of each element, even if a kernel reads x twice. By this count, which share of the
# copy's [bandwidth](../glossary.md#bandwidth) can a kernel reach if it reads x from memory twice and writes y? And if
# it reads x once? If you have a GPU, what did you measure? Why is a `LAG` of one row too small, and a `LAG` of 100 rows
# too large?
#
# ### BEGIN SOLUTION
# Two reads and one write are three transfers, and a copy has two: 67 %. If the second read comes from the L2, the
# kernel is near the copy; it loses some time to waiting, tickets and reductions. With a LAG of one row, a program that
# computes y starts right after the programs whose statistics it needs. These are still running on other SMs, so it
# waits. 100 rows are 80 MB, more than the L2 holds: x has been evicted before it is needed again, so it is read from
# memory twice after all.
# ### END SOLUTION

# %% [markdown]
# ## Extra: one row per cluster
#
# This part has no points. The kernel needs a Hopper GPU ([compute capability](../glossary.md#compute-capability) 9.0);
# without one, it runs in the emulator.
#
# `one_launch_softmax` reads x twice, the second time from the L2 cache. The second read is not free: three transfers
# per element (two reads, one write) go through the L2 cache and limit the speed. To read x only once, a kernel must
# keep a row on the SMs, for example in registers. 200 000 floats are 800 KB. This is too much for the registers of one
# SM (256 KB), but not for the registers of eight SMs.
#
# Hopper can launch blocks in [clusters](../glossary.md#cluster). A cluster has up to {claim: online_cluster_size},
# which run at the same time and can write to each other's [shared memory](../glossary.md#shared-memory). In
# `cluster_softmax` a cluster computes a row, and each block of the cluster computes one part of the row:
#
# - A block keeps its part in registers, up to 28 floats per thread. At the same time, the block loads its part of the
#   next row into shared memory with an [async copy](../glossary.md#async-copy).
# - Each block sends the pair (m, l) of its part to all blocks of the cluster with `store_async`. An
#   [mbarrier](../glossary.md#mbarrier) in the receiving block counts the bytes that arrive. Each block then merges the
#   pairs with the update that you derived above.
# - The kernel is [persistent](../glossary.md#persistent-kernel): each cluster loops over rows. The kernel needs no
#   tickets, counters or `LAG`.
#
# The rest of the kernel is in `labutils/lessons/cluster_kernel.py`. Only `exchange` is missing: **write it** in the
# CUDA cell below.
#
# <details><summary>Hint 1</summary>One thread announces how many bytes will arrive: <code>mbarrier_expect(bar, 8 *
# blocks)</code>.</details>
# <details><summary>Hint 2</summary>Lane k of warp 0 stores the pair in the array <code>pairs</code> of block k, and
# block k's <code>bar</code> counts the bytes: <code>store_async(&amp;pairs[cluster_rank()], pair, bar,
# k)</code>.</details>
# <details><summary>Hint 3</summary>All threads wait with <code>mbarrier_wait(bar, parity)</code>. Then each warp reads
# the pairs, one per lane, and merges them.</details>
#
# On an H200 the solution reached {claim: online_h200_cluster} for the 1024 rows above.
#
# **More to try.** Run the second loop of `online_softmax` backward, from the end of the row. It then begins where the
# first loop ended: for which row lengths does it find data in the L2 cache? Replace exp by `tl.exp2`, since exp(x) =
# exp2(x · log₂ e): multiply x by log₂ e right after each load, so that m needs no factor.

# %% cell="solution" id="exchange_kernel"
# %%cuda
# #include <cuda_pipeline.h>
# #include <lab/hopper.cuh>
#
# __device__ float zero_if_empty(float m) { return m == -INFINITY ? 0.0f : m; }
#
# // Merge the 32 pairs (m, l) of a warp by shuffles, as merged_sum merges two pairs.
# __device__ float2 merged(float2 pair) {
#     float m = pair.x;
#     for (int s = 16; s > 0; s /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, s));
#     float l = pair.y * __expf(pair.x - zero_if_empty(m));
#     for (int s = 16; s > 0; s /= 2) l += __shfl_xor_sync(0xffffffff, l, s);
#     return make_float2(m, l);
# }
# // Return the merged pair of all blocks of the cluster to every thread. All threads of the block call this function.
# // `pair` is this block's pair, valid in warp 0. `pairs` has space for one pair per block. `bar` is an mbarrier on
# // which one thread calls mbarrier_expect. With the same `bar`, `parity` is 0 in the first call, 1 in the second, 0 in
# // the third, and so on. `pairs` and `bar` are in shared memory, at the same address in each block.
# __device__ float2 exchange(float2 pair, float2 *pairs, uint64_t *bar, int parity, int blocks) {
#     int lane = threadIdx.x % 32;
#     // ### BEGIN SOLUTION
#     if (threadIdx.x < 32) {
#         if (lane == 0) mbarrier_expect(bar, 8 * blocks);
#         if (lane < blocks) store_async(&pairs[cluster_rank()], pair, bar, lane);
#     }
#     mbarrier_wait(bar, parity);
#     return merged(lane < blocks ? pairs[lane] : make_float2(-INFINITY, 0.0f));
#     // ### END SOLUTION
# }
#
# // Tests exchange(). Each block has one warp, reads a row of x (blocks, 32), and writes (m, l) of all of x.
# __global__ void exchange_kernel(const float *x, float *m, float *l, int blocks) {
#     extern __shared__ __align__(16) float2 pairs[];
#     uint64_t *bar = reinterpret_cast<uint64_t *>(pairs + blocks);
#     if (threadIdx.x == 0) mbarrier_init(bar, 1);
#     mbarrier_fence();
#     cluster_sync();  // no block sends before all barriers are ready
#     float2 pair = merged(make_float2(x[32 * cluster_rank() + threadIdx.x], 1.0f));
#     pair = exchange(pair, pairs, bar, 0, blocks);
#     if (threadIdx.x == 0) m[cluster_rank()] = pair.x, l[cluster_rank()] = pair.y;
#     cluster_sync();  // no block exits while others may still send to it
# }


# %% cell="given" id="cluster_softmax"
def cluster_softmax(x, out, lse):
    clusters.softmax(exchange_kernel, x, out, lse, fallback=one_launch_softmax)


clusters.try_exchange(exchange_kernel)
clusters.try_out(exchange_kernel, cluster_softmax, {"one_launch_softmax": one_launch_softmax})

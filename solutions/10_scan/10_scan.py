# %% [markdown]
# # Histogram, prefix sums, compaction
#
# **You will** write three building blocks of parallel programs: a [histogram](../glossary.md#histogram) and [prefix
# sums](../glossary.md#prefix-sum) in CUDA C++, and [compaction](../glossary.md#compaction) in Triton.
#
# **You will learn to**
# - give each [block](../glossary.md#block) private counters, so that [atomics](../glossary.md#atomic) wait less for
#   each other;
# - compute all prefix sums of a vector in parallel, within [warps](../glossary.md#warp), blocks and the whole grid;
# - use prefix sums to compute where each [program](../glossary.md#program) writes its results.
#
# **You need** `10_warp_reduction`. About 60 minutes. You need a GPU only to measure times.
#
# ## 1 Histogram
#
# `counts[b]` is the number of elements of x that equal b, for b = 0, 1, … `bins` − 1. The direct way is one atomic per
# element: `atomicAdd(&counts[x[i]], 1)`. This is correct but slow: the atomics of all blocks go to the same few
# addresses in the [L2 cache](../glossary.md#l2-cache), and atomics on one address are executed one after another. In
# the worst case, all elements are equal, and all n atomics are on one address.
#
# *Privatization* fixes this: each block counts in its own counters (*bins*) in [shared
# memory](../glossary.md#shared-memory), where atomics are faster and wait only for atomics of the same block. At the
# end, each block adds its bins to `counts`, with one global atomic per bin that is not 0.
#
# **Predict.** A block processes 4096 elements. How many global atomics does this block execute without private bins?
# With 256 private bins, what is the largest possible number?
#
# | argument | shape | meaning |
# |---|---|---|
# | `x` | (n,) | input, int: values 0 to `bins` − 1 |
# | `counts` | (bins,) | output, int; the launcher has set it to 0 |
#
# <details><summary>Hint 1</summary>The kernel has three phases: set the private bins to 0, count, and add these bins to
# <code>counts</code>. After each of the first two phases, all threads of the block must wait at a barrier.</details>
# <details><summary>Hint 2</summary>In the first and the last phase, thread t handles bins t, t + blockDim.x, and so on.
# In the second phase, a grid-stride loop visits x.</details>
# <details><summary>Hint 3</summary><code>atomicAdd(&amp;mine[x[i]], 1)</code> works on shared memory,
# too.</details>

# %% cell="setup"

# %% cell="given" id="launchers"
import torch
import triton
import triton.language as tl

BLOCK = 256


def resident():
    """Return how many blocks the GPU runs at the same time."""
    gpu = lab.device.current()
    return gpu.sms * (32 * gpu.limits.max_warps // BLOCK) if gpu else 64


def histogram(x, bins, counts):
    counts.zero_()
    n = x.numel()
    blocks = min(triton.cdiv(n, 16 * BLOCK), resident())
    histogram_kernel[blocks, BLOCK](x, counts, n, bins)


def scan(x, out):
    """Each block computes its prefix sums. `scan` calls itself for the blocks' totals; later blocks add them."""
    n = x.numel()
    blocks = triton.cdiv(n, BLOCK)
    totals = torch.empty(blocks, device=x.device)
    scan_kernel[blocks, BLOCK](x, out, totals, n)
    if blocks > 1:
        offsets = torch.empty_like(totals)
        scan(totals, offsets)
        add_offsets[blocks - 1, BLOCK](out, offsets, n)


def compact(x, out, count, BLOCK=1024):
    out.zero_()
    n = x.numel()
    programs = triton.cdiv(n, BLOCK)
    kept, offsets = (torch.empty(programs, dtype=torch.int32, device=x.device) for _ in range(2))
    count_kernel[(programs,)](x, kept, n, BLOCK=BLOCK)
    offsets_kernel[(1,)](kept, offsets, count, programs, BLOCK=1024)
    compact_kernel[(programs,)](x, offsets, out, n, BLOCK=BLOCK)


# %% cell="solution" id="histogram_kernel"
# %%cuda
# // counts[b] += number of elements of x that are b, for b = 0, 1, … bins - 1. bins is at most 256.
# __global__ void histogram_kernel(const int *x, int *counts, int n, int bins) {
#     __shared__ int mine[256];
#     // ### BEGIN SOLUTION
#     for (int b = threadIdx.x; b < bins; b += blockDim.x) mine[b] = 0;
#     __syncthreads();
#     int stride = gridDim.x * blockDim.x;
#     for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) atomicAdd(&mine[x[i]], 1);
#     __syncthreads();
#     for (int b = threadIdx.x; b < bins; b += blockDim.x) {
#         if (mine[b] > 0) atomicAdd(&counts[b], mine[b]);
#     }
#     // ### END SOLUTION
# }

# %% cell="check" exercise="10_scan/histogram"
lab.check("10_scan/histogram")

# %% [markdown]
# ## 2 Prefix sums
#
# The inclusive prefix sums of x are out[i] = x[0] + … + x[i]. The exclusive prefix sums leave out x[i]. To *scan* x is
# to compute its prefix sums. It seems that each sum must wait for the previous one. But a warp can compute 32 prefix
# sums in 5 steps (the method of Hillis and Steele). The steps have the distances s = 1, 2, 4, 8, 16. Before the step
# with distance s, [lane](../glossary.md#lane) k holds the sum of the s elements k − s + 1 to k (of elements 0 to k if k
# < s). In this step, each lane k ≥ s adds the sum of lane k − s to its own sum:
#
# | | lane 0 | lane 1 | lane 2 | lane 3 | lane 4 |
# |---|---|---|---|---|---|
# | x | a | b | c | d | e |
# | after s = 1 | a | a+b | b+c | c+d | d+e |
# | after s = 2 | a | a+b | a+b+c | a+b+c+d | b+c+d+e |
# | after s = 4 | a | a+b | a+b+c | a+b+c+d | a+b+c+d+e |
#
# In lane k, `__shfl_up_sync(0xffffffff, sum, s)` returns the `sum` of lane k − s. If k < s, the call returns lane k's
# own `sum`: do not add this value.
#
# A block scans in two levels, like the sum V6 of `10_warp_reduction`. Each warp scans its 32 elements and writes its
# total to shared memory. The first warp scans these totals. Then each warp except the first adds the total of all warps
# before it to its prefix sums. The given launcher `scan` does the same with blocks. `scan_kernel` stores the total of
# each block, and `scan` calls itself to scan these totals. Then `add_offsets` adds the total of all earlier blocks to
# each block's prefix sums.
#
# <details><summary>Hint 1</summary>All lanes whose bits are set in the shuffle's first argument (here all 32) must
# reach the shuffle. So threads past the end of x take part, with the value 0.</details>
# <details><summary>Hint 2</summary><code>float left = __shfl_up_sync(0xffffffff, sum, s); if (lane &gt;= s) sum +=
# left;</code> for s = 1, 2, 4, 8, 16.</details>
# <details><summary>Hint 3</summary>After the scan of the first warp, <code>warp_sums[w]</code> is the total of warps 0
# to w, so warp w adds <code>warp_sums[w - 1]</code>. You need two barriers. The last thread holds the total of the
# block.</details>

# %% cell="solution" id="scan_kernel"
# %%cuda
# // out[i] = sum of x[j] for all j <= i in the same block; totals[b] = sum of block b
# __global__ void scan_kernel(const float *x, float *out, float *totals, int n) {
#     __shared__ float warp_sums[32];
#     int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
#     int i = blockIdx.x * blockDim.x + threadIdx.x;
#     // ### BEGIN SOLUTION
#     float sum = i < n ? x[i] : 0.0f;
#     for (int s = 1; s < 32; s *= 2) {
#         float left = __shfl_up_sync(0xffffffff, sum, s);
#         if (lane >= s) sum += left;
#     }
#     if (lane == 31) warp_sums[warp] = sum;
#     __syncthreads();
#     if (warp == 0) {
#         float total = lane < warps ? warp_sums[lane] : 0.0f;
#         for (int s = 1; s < 32; s *= 2) {
#             float left = __shfl_up_sync(0xffffffff, total, s);
#             if (lane >= s) total += left;
#         }
#         if (lane < warps) warp_sums[lane] = total;
#     }
#     __syncthreads();
#     if (warp > 0) sum += warp_sums[warp - 1];
#     if (i < n) out[i] = sum;
#     if (threadIdx.x == blockDim.x - 1) totals[blockIdx.x] = sum;
#     // ### END SOLUTION
# }
#
# // block b + 1 adds the total of blocks 0, …, b
# __global__ void add_offsets(float *out, const float *offsets, int n) {
#     int i = (blockIdx.x + 1) * blockDim.x + threadIdx.x;
#     if (i < n) out[i] += offsets[blockIdx.x];
# }

# %% cell="check" exercise="10_scan/scan"
lab.tiny("10_scan/scan")
lab.check("10_scan/scan")

# %% [markdown]
# ## 3 Compaction
#
# Keep the positive elements of x, in their order, and store them contiguously: the first kept element in out[0], the
# next one in out[1], and so on. The index in `out` of a kept element is the number of kept elements before it. So the
# indices are the exclusive prefix sums of flags `keep` (1 if the element is kept, else 0).
#
# Compaction takes three launches, because a program does not know how many elements the programs before it keep:
#
# 1. `count_kernel`: program p stores the number of kept elements of its block in `kept[p]`.
# 2. `offsets_kernel` (given): one program computes `offsets`, the exclusive prefix sums of `kept`. Program p of the
#    next launch begins to write at `out[offsets[p]]`. `offsets_kernel` also stores the total of `kept` in `count`.
# 3. `compact_kernel`: each program loads its block again, and stores the kept elements.
#
# `tl.cumsum(values, axis=0)` returns *inclusive* prefix sums within a block. The launcher has set `out` to 0.
#
# <details><summary>Hint 1</summary>Load elements past the end as 0: they are not positive, so they are neither counted
# nor kept.</details>
# <details><summary>Hint 2</summary>The flags are <code>keep = (x &gt; 0).to(tl.int32)</code>. To get exclusive prefix
# sums, subtract the flags from their inclusive prefix sums.</details>
# <details><summary>Hint 3</summary>Store to <code>out_ptr + offset + rank</code> with the mask <code>x &gt; 0</code>.
# <code>offset</code> is the program's element of <code>offsets</code>, and <code>rank</code> holds the exclusive prefix
# sums of <code>keep</code>.</details>


# %% cell="solution" id="compact_kernels"
@triton.jit
def count_kernel(x_ptr, kept_ptr, n, BLOCK: tl.constexpr):
    """Store in kept[pid] how many elements of block pid of x (n,) are positive."""
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    ### BEGIN SOLUTION
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(kept_ptr + pid, tl.sum((x > 0).to(tl.int32)))
    ### END SOLUTION


@triton.jit
def offsets_kernel(kept_ptr, offsets_ptr, count_ptr, P, BLOCK: tl.constexpr):
    """offsets[p] = kept[0] + … + kept[p - 1] for p < P, and count[0] = sum of kept; a single program."""
    total = 0
    for start in range(0, P, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        kept = tl.load(kept_ptr + offs, mask=offs < P, other=0)
        tl.store(offsets_ptr + offs, total + tl.cumsum(kept, 0) - kept, mask=offs < P)
        total += tl.sum(kept)
    tl.store(count_ptr, total)


@triton.jit
def compact_kernel(x_ptr, offsets_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Store the positive elements of block pid of x contiguously in out, in order, beginning at out[offsets[pid]]."""
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    ### BEGIN SOLUTION
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    keep = (x > 0).to(tl.int32)
    rank = tl.cumsum(keep, 0) - keep
    tl.store(out_ptr + tl.load(offsets_ptr + pid) + rank, x, mask=x > 0)
    ### END SOLUTION


# %% cell="check" exercise="10_scan/compact"
lab.tiny("10_scan/compact")
lab.check("10_scan/compact")

# %%
lab.claims("10_scan")  # a two-minute quiz: predict each number, then compare
if lab.device.has_gpu():
    for name in ("histogram", "scan", "compact"):
        print(lab.benchmark(f"10_scan/{name}") or "")

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** A colleague wants to save two launches of `compact`: each program computes `kept`, the number of its kept
# elements, and calls `start = tl.atomic_add(count_ptr, kept)` to reserve a piece of `out`. Compare the result with that
# of `compact`: what is the same, and what may differ? When would you use this version?
#
# ### BEGIN SOLUTION
# The old value that the atomic returns is different for each program, and the pieces do not overlap, so every kept
# element is stored exactly once, with one launch and x read once. But programs run in any order, so the order of the
# pieces is arbitrary, and may differ in the next run. Use this version if the order does not matter, for example for a
# list of work items. Keep the prefix sums where the order matters or results must be reproducible.
# ### END SOLUTION

# %% [markdown]
# **Next.** `11_hunt` hides bugs in kernels like these. In `11_softmax`, each row needs two
# [reductions](../glossary.md#reduction). You can also try these:
#
# - Give each *warp* private bins, or give each block several copies of its bins. For which x is this faster?
# - Let each thread of `scan_kernel` scan four elements in [registers](../glossary.md#register) before the shuffles.
# - Sort keys of one bit: all zeros, then all ones, each group in its original order. That is one step of a radix sort.
#
# **In practice** you call `torch.bincount`, `torch.cumsum`, `x[x > 0]`, or CUB's `DeviceHistogram`, `DeviceScan` and
# `DeviceSelect`. `DeviceScan` and `DeviceSelect` read x only once, in one launch: each block waits until the blocks
# before it have published their sums (*decoupled look-back*). Triton has `tl.histogram`, `tl.cumsum` and, for other
# operations than addition, `tl.associative_scan`.
#
# **Reading.** [Parallel prefix sum with
# CUDA](https://developer.nvidia.com/gpugems/gpugems3/part-vi-gpu-computing/chapter-39-parallel-prefix-sum-scan-cuda),
# GPU Gems 3. [Single-pass parallel prefix scan with decoupled
# look-back](https://research.nvidia.com/publication/2016-03_single-pass-parallel-prefix-scan-decoupled-look-back).

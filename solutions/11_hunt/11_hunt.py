# %% [markdown]
# # Bug hunt: reductions and scans
#
# **You will** find one bug in each of three kernels whose threads work together. First the kernels show only what they
# do: cases that fail, values, counts. You name line and cause, then you fix the kernel.
#
# **You will learn to**
# - compare the first wrong element with the size of a warp and of a block;
# - recognize a race by values that are right in a recorded run;
# - compare how far a block's data reach with how far apart blocks start.
#
# **You need** `10_reduction` and `10_scan`. About 45 minutes. You need no GPU.
#
# Do not run the checks of the last section before you have named the bugs: they name causes, too.

# %% cell="setup"

# %% cell="given" id="launchers"
import torch
import triton

BLOCK = 256


def sum_in_launches(kernel, x, out, per_block):
    """Each launch stores one partial sum per block. The last launch has a single block, which stores the total."""
    n = x.numel()
    while n > per_block:
        blocks = triton.cdiv(n, per_block)
        partial = torch.empty(blocks, device=x.device)
        kernel[blocks, BLOCK](x, partial, n)
        x, n = partial, blocks
    kernel[1, BLOCK](x, out, n)


def sum_v4(x, out):
    sum_in_launches(reduce_v4, x, out, 2 * BLOCK)


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


def resident():
    """Return how many blocks the GPU runs at the same time."""
    gpu = lab.device.current()
    return gpu.sms * (32 * gpu.limits.max_warps // BLOCK) if gpu else 64


def histogram(x, bins, counts):
    counts.zero_()
    n = x.numel()
    blocks = min(triton.cdiv(n, 16 * BLOCK), resident())
    histogram_kernel[blocks, BLOCK](x, counts, n, bins)


# %% [markdown]
# ## 1 Two elements per thread
#
# Each thread adds two elements, then a tree in shared memory adds the block's 256 numbers. Each block stores its sum,
# and the launcher runs the kernel again on these sums. Arrays of one block give the right sum.

# %% cell="hunt" id="tree_kernel" exercise="11_hunt/tree"
# %%cuda
# // partial[b] = x[512·b] + … + x[512·b + 511]. Elements past the end count as 0. Each thread loads two elements.
# __global__ void reduce_v4(const float *x, float *partial, int n) {
#     __shared__ float tile[256];
#     int t = threadIdx.x;
#     // ### BEGIN SOLUTION
#     int i = blockIdx.x * 2 * blockDim.x + t;
#     float sum = i < n ? x[i] : 0.0f;
#     if (i + blockDim.x < n) sum += x[i + blockDim.x];
#     tile[t] = sum;
#     __syncthreads();
#     for (int s = blockDim.x / 2; s > 0; s /= 2) {
#         if (t < s) tile[t] += tile[t + s];
#         __syncthreads();
#     }
#     // ### END SOLUTION
#     if (t == 0) partial[blockIdx.x] = tile[0];
# }

# %%
lab.evidence("11_hunt/tree")
lab.tiny("11_hunt/tree")

# %% [markdown]
# ## 2 Prefix sums
#
# Each warp scans 32 elements with shuffles, the first warp scans the sums of all warps, and every warp adds the total
# of the warps before it. A colleague reports results that change from run to run. You have never seen this.

# %% cell="hunt" id="scan_kernel" exercise="11_hunt/scan"
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

# %%
lab.evidence("11_hunt/scan")

# %% [markdown]
# ## 3 A histogram
#
# Each block counts in bins of its own in shared memory, then adds them to the result. Sometimes the counts add up to
# less than n.

# %% cell="hunt" id="histogram_kernel" exercise="11_hunt/histogram"
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

# %%
lab.evidence("11_hunt/histogram")

# %% [markdown]
# ## 4 Name the bugs
#
# Fill in `bug`: for each hunt, the line of its kernel's cell where the bug is, and the cause. Lines count from 1 (View
# → Show Line Numbers); `%%cuda` is line 1. If several lines can be changed to fix the bug, any of them is right.
#
# The causes to choose from:
#
# - blocks overlap
# - missing barrier
# - missing atomic
# - bank conflict
# - missing guard
# - wrong shuffle mask
# - uninitialized shared memory
# - last step missing
#
# <details><summary>Hint 1</summary><code>tree</code>: write down which elements block 0 adds, and which block
# 1.</details>
# <details><summary>Hint 2</summary><code>scan</code>: which warp writes <code>warp_sums</code>, and what tells the
# other warps that it has finished?</details>
# <details><summary>Hint 3</summary><code>histogram</code>: two threads of a block find the same value at the same
# moment. What does each of them do?</details>


# %% cell="solution" id="bug"
def bug(hunt):
    """Return the line and the cause of a hunt's bug, such as {"line": 12, "cause": "…"}.

    hunt  "tree" or "scan" or "histogram"
    """
    ### BEGIN SOLUTION
    found = {
        "tree": {"line": 6, "cause": "blocks overlap"},
        "scan": {"line": 21, "cause": "missing barrier"},
        "histogram": {"line": 8, "cause": "missing atomic"},
    }
    return found[hunt]
    ### END SOLUTION


# %% cell="check" exercise="11_hunt/bug"
lab.check("11_hunt/bug")

# %% [markdown]
# ## 5 Fix them
#
# Change the kernels in their cells above, run the cells, and check. A fix needs few characters or lines; the rest of
# the kernel is right.

# %% cell="check" exercise="11_hunt/tree"
lab.check("11_hunt/tree")

# %% cell="check" exercise="11_hunt/scan"
lab.check("11_hunt/scan")

# %% cell="check" exercise="11_hunt/histogram"
lab.check("11_hunt/histogram")

# %% [markdown]
# **Next.** `11_softmax` reduces the rows of a matrix; `12_hunt` has the bugs of such kernels.
#
# **In practice** keep each bug that you fix as a test: the smallest case that showed it.

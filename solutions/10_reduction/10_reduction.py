# %% [markdown]
# # Sum a vector: a reduction in shared memory
#
# **You will** write four CUDA C++ kernels that sum a vector. Each version after the first removes a bottleneck of the
# version before it.
#
# **You will learn to**
# - add numbers as a [tree](../glossary.md#tree) in [shared memory](../glossary.md#shared-memory), with
#   [barriers](../glossary.md#barrier);
# - count [divergent](../glossary.md#divergence) branches, [bank conflicts](../glossary.md#bank-conflict) and barriers,
#   and lower one of these counts in each version;
# - sum any number of elements in several launches.
#
# **You need** `07_elementwise_cuda`, `08_coalescing` and `09_shared_memory`. About 80 minutes; `10_warp_reduction`,
# which continues this unit, takes about 70. You need a GPU only to measure times.
#
# ## Predict: how many warps are busy?
#
# A [reduction](../glossary.md#reduction) combines many values into one. A [block](../glossary.md#block) of 256 threads
# holds 256 numbers in shared memory and adds them as a *tree*. In the first step, 128 threads add one pair of numbers
# each; in the second step, 64 threads add one pair each, and so on. So the tree takes 8 steps; one thread alone would
# need 255. The first version (V1) begins with neighbors: its steps have the distances `s` = 1, 2, 4, …, 128. In the
# step with distance `s`, each thread whose index `t` is a multiple of `2·s` adds element `t + s` to element `t`.
#
# A [warp](../glossary.md#warp) is busy in a step if at least one of its 32 [lanes](../glossary.md#lane) adds. Write
# `busy_warps`: how many warps of a block are busy in V1's step with distance `s`? The argument `threads` is the block
# size, a power of two that is at least 32. The picture below shows which threads of two warps add in V1, and in the
# second version, V2.

# %% cell="setup"

# %% cell="given" id="launchers"
import torch
import triton

from labutils import trees

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


def sum_v1(x, out):
    sum_in_launches(reduce_v1, x, out, BLOCK)


def sum_v2(x, out):
    sum_in_launches(reduce_v2, x, out, BLOCK)


def sum_v3(x, out):
    sum_in_launches(reduce_v3, x, out, BLOCK)


def sum_v4(x, out):
    sum_in_launches(reduce_v4, x, out, 2 * BLOCK)


trees.who_adds()


# %% cell="solution" id="busy_warps"
def busy_warps(threads, s):
    """Return the number of busy warps in V1's step with distance s, for a block of `threads` threads."""
    ### BEGIN SOLUTION
    return threads // max(32, 2 * s)
    ### END SOLUTION


# %% cell="check" exercise="10_reduction/busy_warps"
lab.check("10_reduction/busy_warps")

# %% [markdown]
# ## V1 Neighbors first
#
# The kernel writes one [partial sum](../glossary.md#partial-sum) per block. These can be added only when all blocks
# have finished, and blocks of one launch cannot simply wait for each other. But a launch starts only after the previous
# launch has finished. So the launcher applies the kernel to the partial sums again and again, until one sum is left.
# The kernel's load and store are given; you write the tree.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x` | (n,) | input |
# | `partial` | (blocks,) | output: the sum of each block's elements |
# | `n` | number | number of elements of `x`, at least 1 |
#
# <details><summary>Hint 1</summary>Write a loop that doubles <code>s</code> while <code>s</code> is less than
# <code>blockDim.x</code>. In each iteration, the threads whose index is a multiple of <code>2 * s</code> add.</details>
# <details><summary>Hint 2</summary>The next step reads what other threads have just written. Which call makes all
# threads wait for each other?</details>
# <details><summary>Hint 3</summary>Every thread of the block must reach the barrier, even if it does not add. So close
# the <code>if</code> before the barrier.</details>
#
# Use this table when the check of any version fails:
#
# | diagnosis | common cause |
# |---|---|
# | `missing-syncthreads` | in one of the steps, no barrier separates a write to `tile` from another thread's read |
# | `barrier-divergence` | the barrier is inside the `if` |
# | `uninitialized-shared` | a thread past the end of `x` does not write a 0 to `tile` |
# | `out-of-bounds` | a step reads past the end of `tile`, or a load reads past the end of `x` |
# | `missing-accumulation` | a step of the tree is missing: check where the loop starts and ends |

# %% cell="solution" id="reduce_v1"
# %%cuda
# // One partial sum per block: partial[b] = x[256·b] + … + x[256·b + 255]. Elements past the end count as 0.
# __global__ void reduce_v1(const float *x, float *partial, int n) {
#     __shared__ float tile[256];
#     int t = threadIdx.x;
#     int i = blockIdx.x * blockDim.x + t;
#     tile[t] = i < n ? x[i] : 0.0f;  // 0 does not change the sum
#     __syncthreads();
#     // ### BEGIN SOLUTION
#     for (int s = 1; s < blockDim.x; s *= 2) {
#         if (t % (2 * s) == 0) tile[t] += tile[t + s];
#         __syncthreads();
#     }
#     // ### END SOLUTION
#     if (t == 0) partial[blockIdx.x] = tile[0];
# }

# %% cell="check" exercise="10_reduction/sum_v1"
lab.tiny("10_reduction/sum_v1")
lab.check("10_reduction/sum_v1")

# %% [markdown]
# ## V2 The first threads add
#
# The lanes of V1's warps [diverge](../glossary.md#divergence): in each of the first steps, every warp executes the
# addition for only some of its lanes. Keep the same additions, but let thread `t` do the addition that updates element
# `2·s·t`. The threads that add are then the first threads of the block. In the first three steps, the adding threads
# fill whole warps, and the other warps skip the step. In each of the last five steps, and at the store of the sum, only
# the first warp diverges. So a block has 6 divergent branches (48 in V1). The check allows 8 per block.
#
# <details><summary>Hint 1</summary>Only the body of the loop changes. First compute the index of the element that
# thread <code>t</code> updates.</details>
# <details><summary>Hint 2</summary>A thread adds if this index is less than <code>blockDim.x</code>.</details>
# <details><summary>Hint 3</summary>The thread adds the element at distance <code>s</code>, as in V1.</details>

# %% cell="solution" id="reduce_v2"
# %%cuda
# // Like reduce_v1, but the first threads of the block add.
# __global__ void reduce_v2(const float *x, float *partial, int n) {
#     __shared__ float tile[256];
#     int t = threadIdx.x;
#     int i = blockIdx.x * blockDim.x + t;
#     tile[t] = i < n ? x[i] : 0.0f;
#     __syncthreads();
#     // ### BEGIN SOLUTION
#     for (int s = 1; s < blockDim.x; s *= 2) {
#         int left = 2 * s * t;
#         if (left < blockDim.x) tile[left] += tile[left + s];
#         __syncthreads();
#     }
#     // ### END SOLUTION
#     if (t == 0) partial[blockIdx.x] = tile[0];
# }

# %% cell="check" exercise="10_reduction/sum_v2"
lab.check("10_reduction/sum_v2")

# %% [markdown]
# ## V3 Sequential addressing
#
# V2 fixes divergence but causes bank conflicts: adjacent lanes read words that are `2·s` apart, so several lanes read
# different words of the same [bank](../glossary.md#bank). To see this for `s` = 4, run `lab.widgets.banks(stride=8)` in
# a new cell: how many lanes read from one bank? V2's warps issue fewer [requests](../glossary.md#request) than V1's.
# But each request with conflicts takes several [wavefronts](../glossary.md#wavefront), so V2 needs as many wavefronts
# as V1.
#
# Reverse the order of the steps: start with the largest distance. In the step with distance `s` = 128, 64, …, 1, each
# thread `t < s` adds element `t + s` to element `t`. Adjacent lanes then read adjacent words.
#
# <details><summary>Hint 1</summary><code>s</code> starts at half the block size and is halved after each step. The last
# step has <code>s = 1</code>.</details>
# <details><summary>Hint 2</summary>The condition compares <code>t</code> with <code>s</code>. The index needs no
# multiplication.</details>
# <details><summary>Hint 3</summary>As before, each step needs one barrier, outside the <code>if</code>.</details>

# %% cell="solution" id="reduce_v3"
# %%cuda
# // Like reduce_v2, but adjacent lanes access adjacent words.
# __global__ void reduce_v3(const float *x, float *partial, int n) {
#     __shared__ float tile[256];
#     int t = threadIdx.x;
#     int i = blockIdx.x * blockDim.x + t;
#     tile[t] = i < n ? x[i] : 0.0f;
#     __syncthreads();
#     // ### BEGIN SOLUTION
#     for (int s = blockDim.x / 2; s > 0; s /= 2) {
#         if (t < s) tile[t] += tile[t + s];
#         __syncthreads();
#     }
#     // ### END SOLUTION
#     if (t == 0) partial[blockIdx.x] = tile[0];
# }

# %% cell="check" exercise="10_reduction/sum_v3"
lab.check("10_reduction/sum_v3")

# %% [markdown]
# ## V4 Add while loading
#
# In V3 half of the threads only load one number, and never add. In V4, let each thread load two numbers and add them in
# a [register](../glossary.md#register) before it writes their sum to shared memory. Choose two numbers that are 256
# elements apart, so that both loads are [coalesced](../glossary.md#coalesced-access). A block then sums 512 elements.
# So for the same `x`, V4 needs half as many blocks, barriers and stores to shared memory as V3. V4 still reads each
# element of `x` once.
#
# <details><summary>Hint 1</summary>The block starts at element <code>blockIdx.x * 2 * blockDim.x</code>.</details>
# <details><summary>Hint 2</summary>Each of the two elements may be past the end of <code>x</code>: guard both
# loads.</details>
# <details><summary>Hint 3</summary>Then store the sum to <code>tile[t]</code>, wait at a barrier, and continue with the
# tree of V3.</details>

# %% cell="solution" id="reduce_v4"
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

# %% cell="check" exercise="10_reduction/sum_v4"
lab.check("10_reduction/sum_v4")

# %%
lab.claims("10_reduction")  # a two-minute quiz: predict each number, then compare
# Other courses say that each version is twice as fast as the previous one. Is this true of your versions on a GPU?
x = (torch.arange(2**15) % 17 - 8.0).to("cuda" if lab.device.has_gpu() else "cpu")
counts = ["launches", "divergent_branches", "shared_load_wavefronts", "barriers", "global_load_requests"]
print("  ", *counts)
for k, sum_version in enumerate((sum_v1, sum_v2, sum_v3, sum_v4), 1):
    with lab.record() as r:
        sum_version(x, torch.empty(1, device=x.device))
    print(f"V{k}", *(f"{r.totals().get(c, 0):{len(c)}}" for c in counts))
print("\nThe last launch of V1, a single block, line by line:")
lab.annotate(reduce_v1)
for k in range(1, 5) if lab.device.has_gpu() else [4]:
    print(lab.benchmark(f"10_reduction/sum_v{k}") or "")
lab.play(sum_v4, torch.rand(1000), torch.empty(1))  # step through V4: which warps add, and which only wait?

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** In V1's eight steps, 8, 8, 8, 8, 8, 4, 2 and 1 warps are busy, as you predicted. How many warps are busy
# in each step of V3? Add up the eight numbers of each version, and divide V1's total by V3's total. Why is V3's speedup
# over V1 smaller than this quotient?
#
# ### BEGIN SOLUTION
# V3's numbers are 4, 2, 1, 1, 1, 1, 1 and 1: a total of 12 instead of 47. But additions take only part of the time. In
# both versions every block must load its elements from memory, and all its warps wait at nine barriers. On a GPU that
# runs enough blocks at once, the additions of some blocks overlap with the loads of others.
# ### END SOLUTION

# %% [markdown]
# **Next.** `10_warp_reduction` continues with warp shuffles, a single launch, and Triton.
#
# **Reading.** [Optimizing Parallel Reduction in
# CUDA](https://developer.download.nvidia.com/assets/cuda/files/reduction.pdf) by Mark Harris describes the same
# versions, on a GPU from 2006.

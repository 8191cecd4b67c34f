# %% [markdown]
# # Share memory within a block: halos, banks, barriers
#
# **You will** write a convolution in which each block loads its inputs only once, write two transposes without [bank
# conflicts](../glossary.md#bank-conflict), and fix two broken kernels.
#
# **You will learn to**
# - load a [tile](../glossary.md#tile) and its [halo](../glossary.md#halo), and synchronize with the
#   [barrier](../glossary.md#barrier) `__syncthreads()`;
# - predict bank conflicts from the [stride](../glossary.md#stride), and remove them by
#   [padding](../glossary.md#padding) or [swizzling](../glossary.md#swizzle);
# - find the cause of a reported [race](../glossary.md#race) or out-of-bounds access.
#
# **You need** your transpose from `08_coalescing`. About 90 minutes. You need a GPU only to measure times.
#
# ## 1 Bank conflicts
#
# [Shared memory](../glossary.md#shared-memory) is memory inside an [SM](../glossary.md#sm). It has 32
# [banks](../glossary.md#bank): word w (4 bytes) is in bank w mod 32. Shared memory serves a
# [request](../glossary.md#request) of a [warp](../glossary.md#warp) in one or more
# [wavefronts](../glossary.md#wavefront), and each bank delivers one word per wavefront. If the
# [lanes](../glossary.md#lane) of the warp read n *different* words of the same bank, the request takes n wavefronts;
# this is an n-way *bank conflict*. Lanes that read the *same* word share one wavefront (a
# [broadcast](../glossary.md#broadcast)) and cause no conflict.
#
# **Predict.** Lane k reads word `k · stride`. How many wavefronts does the request take? The widget below shows the
# answer for a stride of 12. Write `wavefronts_for_stride`, which returns the answer for any stride.

# %% cell="setup"

# %% cell="given" id="launchers"
import torch


def cdiv(n, block):
    return (n + block - 1) // block


def conv1d(x, weights, out):
    n, radius = x.numel(), weights.numel() // 2
    conv1d_kernel[cdiv(n, 1024), 128](out, x, weights, radius, n)


def transpose_padded(x, out):
    M, N = x.shape
    transpose_padded_kernel[(cdiv(N, 64), cdiv(M, 64)), (64, 4)](out, x, M, N)


def transpose_swizzled(x, out):
    M, N = x.shape
    transpose_swizzled_kernel[(cdiv(N, 64), cdiv(M, 64)), (64, 4)](out, x, M, N)


def smooth(x, steps, out):
    n = x.numel()
    smooth_kernel[cdiv(n, 256), 256](out, x, steps, n)


def gradient(x, out):
    n = x.numel()
    gradient_kernel[cdiv(n, 256), 256](out, x, n)


lab.widgets.banks(stride=12)


# %% cell="solution" id="wavefronts_for_stride"
def wavefronts_for_stride(stride):
    """Return the number of wavefronts of one request in which lane k reads word k * stride, for k = 0 to 31."""
    ### BEGIN SOLUTION
    words_of_bank = {}
    for lane in range(32):
        word = lane * stride
        words_of_bank.setdefault(word % 32, set()).add(word)
    return max(len(words) for words in words_of_bank.values())
    ### END SOLUTION


# %% cell="check" exercise="09_shared_memory/wavefronts_for_stride"
lab.check("09_shared_memory/wavefronts_for_stride")

# %% [markdown]
# ## 2 A convolution with a halo
#
# Compute `out[i] = Σ weights[radius + j] · x[i + j]`, summed over j = −radius … radius. If `i + j` is outside the
# bounds of `x`, use 0 in place of `x[i + j]`. Neighboring outputs share most of their inputs. So each
# [block](../glossary.md#block) loads its inputs *once* into shared memory, where its threads can read them many times.
# A block computes 1024 outputs. For these outputs, the block needs the 1024 inputs at the same indices, and `radius`
# more inputs on each side: the *halo*.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x` | (n,) | input |
# | `weights` | (2·radius + 1,) | input; `radius` is at most 8 |
# | `out` | (n,) | output |
#
# A block has 128 threads: thread t computes outputs t, t + 128, …, t + 896 of the block. So neighboring lanes access
# neighboring words. Fill the tile in the same order: each thread then loads eight elements of `x`. All of
# these loads can be [in flight](../glossary.md#in-flight) together if you unroll the loop (`#pragma unroll`) and use no
# `else` in it.
#
# You get 2 points for a correct result, and 1 point if loads from shared memory cause no bank conflicts. You get
# 1 point if the kernel loads few [sectors](../glossary.md#sector). `x` has n/8 of them, because a sector holds 8
# floats. Each block may load 5 more: 2 for the halo, and 3 for the weights.
#
# <details><summary>Hint 1</summary>Let <code>first</code> be the index of the block's first output. Whatever
# <code>radius</code> is, let <code>tile[k]</code> hold <code>x[first - MAX_RADIUS + k]</code>, or 0 if this element of
# <code>x</code> does not exist. <code>first - MAX_RADIUS</code> is a multiple of 8, so the loads begin at a sector
# boundary. Load the weights into the shared array <code>taps</code>.</details>
# <details><summary>Hint 2</summary>Each thread fills eight words: <code>tile[threadIdx.x]</code>,
# <code>tile[threadIdx.x + 128]</code> and so on. The 16 words that remain are filled by 16 of the threads. Then all
# threads call <code>__syncthreads()</code>.</details>
# <details><summary>Hint 3</summary>Output <code>o</code> of the block (0 to 1023) is the sum of <code>taps[k] *
# tile[start + k]</code> over <code>k</code> from 0 to <code>2 * radius</code>, with <code>start = o + MAX_RADIUS -
# radius</code>. Make the loop over <code>k</code> the outer loop: a thread then reads each weight once for its eight
# outputs.</details>

# %% cell="solution" id="conv1d_kernel"
# %%cuda
# constexpr int THREADS = 128, OUTPUTS = 8, TILE = THREADS * OUTPUTS, MAX_RADIUS = 8;
#
# __global__ void conv1d_kernel(float* __restrict__ out, const float* __restrict__ x,
#                               const float* __restrict__ weights, int radius, int n) {
#     // out[i] = sum of weights[radius + j] * x[i + j], j = -radius ... radius; one block computes TILE outputs.
#     __shared__ float tile[TILE + 2 * MAX_RADIUS];
#     __shared__ float taps[2 * MAX_RADIUS + 1];
#     const int first = blockIdx.x * TILE;
#     // ### BEGIN SOLUTION
#     #pragma unroll
#     for (int j = 0; j <= OUTPUTS; j++) {
#         const int place = threadIdx.x + j * THREADS, i = first - MAX_RADIUS + place;
#         float value = 0.0f;  // without an else there is no branch: all nine loads are in flight together
#         if (place < TILE + 2 * MAX_RADIUS && 0 <= i && i < n) value = x[i];
#         if (place < TILE + 2 * MAX_RADIUS) tile[place] = value;
#     }
#     if (threadIdx.x <= 2 * radius) taps[threadIdx.x] = weights[threadIdx.x];
#     __syncthreads();
#     float sum[OUTPUTS] = {};
#     const float* mine = tile + threadIdx.x + MAX_RADIUS - radius;
#     for (int k = 0; k <= 2 * radius; k++) {
#         const float weight = taps[k];
#         #pragma unroll
#         for (int j = 0; j < OUTPUTS; j++) sum[j] += weight * mine[j * THREADS + k];
#     }
#     #pragma unroll
#     for (int j = 0; j < OUTPUTS; j++) {
#         const int i = first + threadIdx.x + j * THREADS;
#         if (i < n) out[i] = sum[j];
#     }
#     // ### END SOLUTION
# }

# %% cell="check" exercise="09_shared_memory/conv1d"
lab.tiny("09_shared_memory/conv1d")
lab.check("09_shared_memory/conv1d")

# %% [markdown]
# Use this table when a check of this notebook fails. The *ideal* wavefronts are those that the same requests would take
# without bank conflicts.
#
# | the check reports | common cause |
# |---|---|
# | `missing-syncthreads` | two threads access one word, one of them writes, and no barrier separates the accesses |
# | `barrier-divergence` | a `return` or `if` keeps some threads from a barrier at which other threads wait |
# | `first-block-only` | each thread computes only one element, not 8 (part 2) or 16 (part 3) |
# | `uninitialized-shared` | the kernel never wrote the halo, or the words of the tile past the end of `x` |
# | `wrong-formula` (part 2) | the weights are in reverse order, or blocks use 0 instead of the elements of their halo |
# | 32 wavefronts per ideal wavefront (16.5 if stores count too) | all words of a tile column are in one bank (part 3) |
#
# **Extra.** Let each thread of `conv1d` compute five *adjacent* outputs. Many of their inputs are the same: keep these
# in [registers](../glossary.md#register). For radius 8, a thread then reads 5 + 16 = 21 words of `x` from shared memory
# instead of 5 · 17 = 85. Why is five a better number than four? (How far apart are the words that neighboring lanes
# read, and in which banks?) Also make `radius` a [template](../glossary.md#template) parameter, so that the compiler
# [unrolls](../glossary.md#unrolling) the loop over the weights.
#
# ## 3 Transpose without bank conflicts
#
# In your transpose of `08_coalescing`, a warp writes a row of the tile and reads a column. Neighboring words of a
# column are 32 words apart, so all 32 words are in the same bank, and the read takes 32 wavefronts. Two fixes are
# common:
#
# - **Padding.** Declare the tile with one more column than you need. How far apart are neighboring words of a column
#   then, and in which banks are they?
# - **Swizzling.** Keep the size of the tile, but store element (y, x) in column `x ^ y` of row y, where `^` is the
#   bitwise exclusive or. Each row then has a different order, and the 32 elements that a warp reads from a column are
#   in 32 different banks.
#
# Write both versions, padding first. Start from your kernel of `08_coalescing`, but with a tile of 64 × 64 words and a
# block of 64 × 4 threads. Each thread then has 16 loads in flight, which makes the kernel faster on large GPUs. You get
# points for a correct result, for coalesced accesses, and for accesses without bank conflicts. The swizzled tile must
# have no padding. [Tensor-core](../glossary.md#tensor-core) kernels swizzle (`16_matmul_hopper`), because with one more
# word per row, most rows would not start at a multiple of 16 bytes, as 16-byte copies need. NVIDIA's guide has [more on
# banks](https://docs.nvidia.com/cuda/cuda-c-programming-guide/#shared-memory).
#
# <details><summary>Hint for transpose_padded</summary>Change only one line: the declaration of the tile.</details>
# <details><summary>Hint 1 for transpose_swizzled</summary>Read element (y, x) of the tile from the place where you
# stored it.</details>
# <details><summary>Hint 2 for transpose_swizzled</summary><code>tile[y][x]</code> becomes <code>tile[y][x ^ y]</code>,
# and <code>tile[x][y]</code> becomes <code>tile[x][y ^ x]</code>. These are the row and column in the whole tile, so
# <code>y</code> includes the loop's <code>k</code>.</details>

# %% cell="solution" id="transpose_padded_kernel"
# %%cuda
# constexpr int TILE = 64, ROWS = 4;
#
# __global__ void transpose_padded_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
#     // out[n][m] = x[m][n]; one block of 64 * 4 threads transposes one tile.
#     // ### BEGIN SOLUTION
#     __shared__ float tile[TILE][TILE + 1];  // a column's words are 65 apart: 32 different banks
#     const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE;
#     #pragma unroll
#     for (int k = 0; k < TILE; k += ROWS) {
#         const int y = threadIdx.y + k, m = first_m + y, n = first_n + threadIdx.x;
#         if (m < M && n < N) tile[y][threadIdx.x] = x[m * N + n];
#     }
#     __syncthreads();
#     #pragma unroll
#     for (int k = 0; k < TILE; k += ROWS) {
#         const int y = threadIdx.y + k, n = first_n + y, m = first_m + threadIdx.x;
#         if (n < N && m < M) out[n * M + m] = tile[threadIdx.x][y];
#     }
#     // ### END SOLUTION
# }

# %% cell="check" exercise="09_shared_memory/transpose_padded"
lab.check("09_shared_memory/transpose_padded")

# %% cell="solution" id="transpose_swizzled_kernel"
# %%cuda
# constexpr int TILE = 64, ROWS = 4;
#
# __global__ void transpose_swizzled_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
#     // out[n][m] = x[m][n]; the tile is swizzled, so it needs no padding.
#     __shared__ float tile[TILE][TILE];
#     // ### BEGIN SOLUTION
#     const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE;
#     #pragma unroll
#     for (int k = 0; k < TILE; k += ROWS) {
#         const int y = threadIdx.y + k, m = first_m + y, n = first_n + threadIdx.x;
#         if (m < M && n < N) tile[y][threadIdx.x ^ y] = x[m * N + n];
#     }
#     __syncthreads();
#     #pragma unroll
#     for (int k = 0; k < TILE; k += ROWS) {
#         const int y = threadIdx.y + k, n = first_n + y, m = first_m + threadIdx.x;
#         if (n < N && m < M) out[n * M + m] = tile[threadIdx.x][y ^ threadIdx.x];
#     }
#     // ### END SOLUTION
# }

# %% cell="check" exercise="09_shared_memory/transpose_swizzled"
lab.check("09_shared_memory/transpose_swizzled")

# %%
lab.claims("09_shared_memory")  # a two-minute quiz: predict each number, then compare
with lab.record():
    transpose_swizzled(torch.rand(64, 64), torch.empty(64, 64))
lab.annotate(transpose_swizzled_kernel)
for name in ("conv1d", "transpose_padded", "transpose_swizzled"):
    print(lab.benchmark(f"09_shared_memory/{name}") or "")

# %% [markdown]
# ## 4 Two kernels to debug
#
# The first kernel smooths groups of 256 elements, one group per block. In each of `steps` iterations, every element
# becomes the mean of three values *of the previous iteration*: its own value and those of its two neighbors. The first
# and the last element of a group have only one neighbor: there the element's own value replaces the missing one. The
# results of this kernel are right in some runs and wrong in others.
#
# ```cpp
# constexpr int BLOCK = 256;
# __global__ void smooth_kernel(float* out, const float* x, int steps, int n) {
#     __shared__ float tile[BLOCK];
#     const int first = blockIdx.x * BLOCK, t = threadIdx.x;
#     const int left = max(t - 1, 0), right = min(t + 1, min(BLOCK, n - first) - 1);
#     tile[t] = x[min(first + t, n - 1)];
#     __syncthreads();
#     for (int step = 0; step < steps; step++) {
#         tile[t] = (tile[left] + tile[t] + tile[right]) / 3.0f;  // line 9
#         __syncthreads();
#     }
#     if (first + t < n) out[first + t] = tile[t];
# }
# ```
# > **Report:** block 0, thread 32 reads tile[31], which thread 31 wrote, with no __syncthreads() in between (line 9).
#
# The second kernel computes `out[i] = x[i + 1] − x[i − 1]`, again with blocks of `BLOCK` = 256 threads. At the first
# element, `x[0]` replaces the missing `x[−1]`. At the last element, `x[n − 1]` replaces the missing `x[n]`.
#
# ```cpp
# __global__ void gradient_kernel(float* out, const float* x, int n) {
#     __shared__ float tile[BLOCK + 1];
#     const int i = blockIdx.x * BLOCK + threadIdx.x, t = threadIdx.x + 1;
#     tile[t] = x[i];
#     if (threadIdx.x == 0) tile[0] = x[i - 1];  // line 5
#     if (threadIdx.x == BLOCK - 1) tile[t + 1] = x[i + 1];
#     __syncthreads();
#     if (i < n) out[i] = tile[t + 1] - tile[t - 1];
# }
# ```
# > **Report:** block 0, thread 0 reads x[-1], outside the array of 250 elements (line 5).
#
# Two threads *race* if they access the same word, at least one of them writes, and no barrier separates the accesses.
# In the loop of the first kernel, look at each access to the tile: which other threads access the same word before the
# next barrier? The second kernel makes several out-of-bounds accesses, but the report names only the first one. Run the
# check after each fix.
#
# <details><summary>Hint 1 for fix_race</summary>A thread may write <code>tile[t]</code> only after its neighbors have
# read <code>tile[t]</code>. It may read <code>tile[left]</code> only after the left neighbor's write of the previous
# iteration. How many barriers does an iteration need?</details>
# <details><summary>Hint 2 for fix_race</summary>Store the mean in a local variable, wait at a barrier, copy the
# variable to the tile, and wait at another barrier. Or use two tiles, read from one and write to the other, and swap
# them in each iteration: then one barrier per iteration is enough.</details>
# <details><summary>Hint 1 for fix_bounds</summary><code>x[min(max(j, 0), n - 1)]</code> exists for every
# <code>j</code>. If <code>x[j]</code> does not exist, this is the value that replaces it.</details>
# <details><summary>Hint 2 for fix_bounds</summary>How many words does a block of 256 threads need, with one neighbor on
# each side? The tile has <code>BLOCK + 1</code>.</details>

# %% cell="solution" id="smooth_kernel"
# %%cuda
# constexpr int BLOCK = 256;
#
# __global__ void smooth_kernel(float* out, const float* x, int steps, int n) {
#     __shared__ float tile[BLOCK];
#     const int first = blockIdx.x * BLOCK, t = threadIdx.x;
#     const int left = max(t - 1, 0), right = min(t + 1, min(BLOCK, n - first) - 1);
#     tile[t] = x[min(first + t, n - 1)];
#     __syncthreads();
#     for (int step = 0; step < steps; step++) {
#         // ### BEGIN SOLUTION
#         const float mean = (tile[left] + tile[t] + tile[right]) / 3.0f;
#         __syncthreads();  // all threads have read the previous iteration
#         tile[t] = mean;
#         __syncthreads();  // all threads have written this one
#         // ### END SOLUTION
#     }
#     if (first + t < n) out[first + t] = tile[t];
# }

# %% cell="check" exercise="09_shared_memory/fix_race"
lab.check("09_shared_memory/fix_race")

# %% cell="solution" id="gradient_kernel"
# %%cuda
# constexpr int BLOCK = 256;
#
# __global__ void gradient_kernel(float* out, const float* x, int n) {
#     const int i = blockIdx.x * BLOCK + threadIdx.x, t = threadIdx.x + 1;
#     // ### BEGIN SOLUTION
#     __shared__ float tile[BLOCK + 2];
#     tile[t] = x[min(i, n - 1)];  // the first thread past the end fills the word right of the last element
#     if (threadIdx.x == 0) tile[0] = x[max(i - 1, 0)];
#     if (threadIdx.x == BLOCK - 1) tile[t + 1] = x[min(i + 1, n - 1)];
#     // ### END SOLUTION
#     __syncthreads();
#     if (i < n) out[i] = tile[t + 1] - tile[t - 1];
# }

# %% cell="check" exercise="09_shared_memory/fix_bounds"
lab.check("09_shared_memory/fix_bounds")

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Suppose that a group had 32 elements instead of 256. On many GPUs, the broken smoothing kernel would then
# give the right result in every run. Why? And why would the kernel still be wrong?
#
# ### BEGIN SOLUTION
# 32 elements are the work of one warp. Its lanes usually execute a load together and then the store together, so all of
# them have read before the first one writes. With 256 elements, eight warps run independently: one warp may store its
# new values before the neighboring warp has loaded the old ones at their common border. But since Volta the lanes of a
# warp need not execute in lockstep: the compiler and the hardware may let one lane go ahead. So even one warp needs a
# barrier (`__syncwarp()`) between reading and writing.
# ### END SOLUTION

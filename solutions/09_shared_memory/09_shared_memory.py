# %% [markdown]
# # Share memory within a block: halos, banks, barriers
#
# **You will** write a convolution that loads every element once, a transpose without bank conflicts in two ways, and
# repair two kernels that are broken.
#
# **You will learn to**
# - load a tile and its halo together, and wait for it with `__syncthreads()`;
# - predict bank conflicts from the stride, and remove them by padding or by swizzling;
# - read a report of a race or of an access out of bounds, and find the cause.
#
# **You need** `08_coalescing`, above all your transpose.
#
# About 90 minutes. Works without a GPU: conflicts are counted and races found exactly; only times need one.

# %% cell="setup"

# %% [markdown]
# ## 1 Banks
#
# Shared memory lies on the SM itself. It consists of 32 *banks*, and word w (4 bytes) lives in bank w mod 32. In one
# pass each bank hands out one word. A request of 32 lanes needs as many passes (a profiler calls them *wavefronts*) as
# the busiest bank must hand out *different* words: 1 at best, 32 at worst. Lanes that read the *same* word are served
# together: a broadcast is no conflict. In the picture each pair of lanes shares a word, and pairs lie 12 words apart.
#
# **Predict.** Lane k reads word `k · stride`. How many passes does the request take?

# %% cell="given"
import torch

lab.banks(lambda lane: 4 * (12 * (lane // 2)), title="lane k reads word 12 · (k // 2)")


# %% cell="solution" id="passes_for_stride"
def passes_for_stride(stride):
    """Passes over the 32 banks when lane k reads word k * stride, for k = 0 to 31."""
    ### BEGIN SOLUTION
    words_of_bank = {}
    for lane in range(32):
        word = lane * stride
        words_of_bank.setdefault(word % 32, set()).add(word)
    return max(len(words) for words in words_of_bank.values())
    ### END SOLUTION


# %% cell="check" exercise="09_shared_memory/passes_for_stride"
lab.check("09_shared_memory/passes_for_stride")

# %% [markdown]
# ## 2 A convolution with a halo
#
# `out[i] = Σ weights[radius + j] · x[i + j]` for j = −radius … radius, with zeros for x beyond its ends. Neighbouring
# outputs share nearly all of their inputs, so a block loads each input *once* into shared memory, and reads it from
# there up to 17 times. Besides its own 1024 elements it needs `radius` more on both sides: the *halo*.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x`, `out` | (n,) | input and output |
# | `weights` | (2·radius + 1,) | radius is at most 8 |
#
# A block has 128 threads and computes 1024 outputs: thread t those at t, t + 128, … t + 896 of its tile, so that
# neighbouring lanes stay at neighbouring words and each thread has eight loads on their way at once. Count what is
# loaded: n/8 sectors for x, and at most 5 more for each block.
#
# <details><summary>Hint 1</summary>Let tile[k] hold x[first - MAX_RADIUS + k], also where the radius is smaller: the
# tile then begins at a sector's first byte. Where x does not exist, put 0. The weights go into shared memory
# too.</details>
# <details><summary>Hint 2</summary>Loading: tile[threadIdx.x], tile[threadIdx.x + 128], … eight times, then once more
# for what is left, 16 elements. Then <code>__syncthreads()</code>, reached by all threads.</details>
# <details><summary>Hint 3</summary>Output number o of the tile is the sum over k = 0 … 2·radius of taps[k] ·
# tile[o + MAX_RADIUS - radius + k]. With the loop over k outside and the eight outputs inside, one weight is read
# once for eight products.</details>

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
#         float value = 0.0f;  // a load without an else needs no jump: all nine are under way at once
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


# %% cell="given" id="launchers"
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


lab.tiny("09_shared_memory/conv1d")

# %% cell="check" exercise="09_shared_memory/conv1d"
lab.check("09_shared_memory/conv1d")

# %% [markdown]
# When a check fails:
#
# | what it says | a common cause |
# |---|---|
# | `missing-syncthreads` | no barrier before reading what others wrote, or before overwriting what others read |
# | `barrier-divergence` | `return` or `if` keeps some threads from a barrier that others wait at |
# | `first-block-only` | a thread of the convolution has eight elements, and of a transpose 16, not one |
# | `uninitialised-shared` | the halo, or places past the end of the data, were never filled |
# | `wrong-formula` | weights in reverse order, or no halo: each block then has wrong values at its ends |
# | passes per ideal pass: 32, 16.5 | columns of the tile lie in one bank |
#
# ## 3 Transpose without conflicts
#
# In your transpose of `08_coalescing` a warp writes a row of the tile and reads a column: 32 words that lie 32 apart.
# By your own function that is 32 passes. Two remedies:
#
# - **Padding.** Declare the tile one column wider than it is used. What is the stride of a column then?
# - **Swizzling.** Keep 64 × 64 words, exactly 16 384 bytes, but store element (y, x) in column `x ^ y` of row y. For a
#   given y this only changes the order within the row, and down a column every row lands in another bank.
#
# Start from your kernel of `08_coalescing` for both, with one change that pays on large GPUs: the tile has 64 × 64
# words and the block 64 × 4 threads, so that each thread has 16 loads on their way at once. Take padding first.
#
# <details><summary>Hint 1</summary>Padding changes one line: the declaration.</details>
# <details><summary>Hint 2</summary>Whoever reads element (y, x) of a swizzled tile must look where it was
# put.</details>
# <details><summary>Hint 3</summary>What was tile[y][x] is tile[y][x ^ y], and what was tile[x][y] is tile[x][y ^
# x].</details>

# %% cell="solution" id="transpose_padded_kernel"
# %%cuda
# constexpr int TILE = 64, ROWS = 4;
#
# __global__ void transpose_padded_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
#     // out[n][m] = x[m][n]; one block of 64 * 4 threads turns one tile.
#     // ### BEGIN SOLUTION
#     __shared__ float tile[TILE][TILE + 1];  // a column's words lie 65 apart: 32 different banks
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
with lab.record():
    transpose_swizzled(torch.rand(64, 64), torch.empty(64, 64))
lab.annotate(transpose_swizzled_kernel)
for name in ("conv1d", "transpose_padded", "transpose_swizzled"):
    print(lab.benchmark(f"09_shared_memory/{name}") or "")

# %% [markdown]
# ## 4 Two kernels to debug
#
# Both are taken from life. The first smooths groups of 256 elements `steps` times: every element becomes the mean of
# itself and its two neighbours *of the previous pass*; at a group's ends the end element stands in for the missing
# neighbour. On many GPUs it gives the right result most of the time. The second computes
# `out[i] = x[i + 1] − x[i − 1]`, where again the end element stands in for a missing neighbour.

# %% cell="given" id="broken_kernels"
# %%cuda
# constexpr int BLOCK = 256;
#
# __global__ void smooth_broken_kernel(float* out, const float* x, int steps, int n) {
#     __shared__ float tile[BLOCK];
#     const int first = blockIdx.x * BLOCK, t = threadIdx.x;
#     const int left = max(t - 1, 0), right = min(t + 1, min(BLOCK, n - first) - 1);
#     tile[t] = x[min(first + t, n - 1)];
#     __syncthreads();
#     for (int step = 0; step < steps; step++) {
#         tile[t] = (tile[left] + tile[t] + tile[right]) / 3.0f;
#         __syncthreads();
#     }
#     if (first + t < n) out[first + t] = tile[t];
# }
#
# __global__ void gradient_broken_kernel(float* out, const float* x, int n) {
#     __shared__ float tile[BLOCK + 1];
#     const int i = blockIdx.x * BLOCK + threadIdx.x, t = threadIdx.x + 1;
#     tile[t] = x[i];
#     if (threadIdx.x == 0) tile[0] = x[i - 1];
#     if (threadIdx.x == BLOCK - 1) tile[t + 1] = x[i + 1];
#     __syncthreads();
#     if (i < n) out[i] = tile[t + 1] - tile[t - 1];
# }


# %% cell="given" id="reports"
def smooth(x, steps, out):
    n = x.numel()
    smooth_kernel[cdiv(n, 256), 256](out, x, steps, n)


def gradient(x, out):
    n = x.numel()
    gradient_kernel[cdiv(n, 256), 256](out, x, n)


with lab.record() as r:
    smooth_broken_kernel[1, 256](torch.empty(256), torch.rand(256), 1, 256)
with lab.record() as s:
    gradient_broken_kernel[1, 256](torch.empty(250), torch.rand(250), 250)
print(*r.findings[:2], *s.findings[:2], sep="\n")

# %% [markdown]
# Two threads that touch the same word of shared memory, one of them writing, need a barrier in between: a *race*
# otherwise. For the first kernel, ask of each pair of lines in the loop, and of its end and its beginning: may one
# thread be here while another is still there? For the second, more than one thing is out of bounds, and the report
# names the first; run the check after each repair.
#
# <details><summary>Hint 1</summary>A thread may write tile[t] when its neighbours have read it, and read tile[left]
# when its neighbour has written it. How many barriers does a pass need?</details>
# <details><summary>Hint 2</summary>Compute into a variable of your own, wait, store, wait. Or use two tiles in turn,
# and wait once.</details>
# <details><summary>Hint 3</summary>Gradient: x[min(max(j, 0), n − 1)] exists for every j, and is just what the formula
# wants beyond the ends. How many words does a block of 256 need, with a neighbour on each side?</details>

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
#         __syncthreads();  // all have read the previous pass
#         tile[t] = mean;
#         __syncthreads();  // all have written this one
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
#     tile[t] = x[min(i, n - 1)];  // threads past the end fill the place to the right of the last element
#     if (threadIdx.x == 0) tile[0] = x[max(i - 1, 0)];
#     if (threadIdx.x == BLOCK - 1) tile[t + 1] = x[min(i + 1, n - 1)];
#     // ### END SOLUTION
#     __syncthreads();
#     if (i < n) out[i] = tile[t + 1] - tile[t - 1];
# }

# %% cell="check" exercise="09_shared_memory/fix_bounds"
lab.check("09_shared_memory/fix_bounds")

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** The broken smoothing gives the right result for a group of 32 elements on many GPUs, and a wrong one for
# 256. Why? And why is it broken for 32 as well?
#
# ### BEGIN SOLUTION
# 32 elements are one warp. Its lanes usually execute a load together and the store after it together, so that all have
# read before the first one writes. With 256 elements, eight warps run independently: one may have stored its new values
# before the next has loaded the old ones at their common border. But since Volta nothing promises that lanes of a warp
# run in step: the compiler and the scheduler may let one lane go ahead, so even there a barrier (`__syncwarp()`) is
# needed between reading and writing.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** Give each thread of `conv1d` five *neighbouring* outputs and keep a window of x in registers: each
# word is then read from shared memory once, not 17 times. Why five and not four? Let `radius` be a template parameter,
# so that the loop over the weights is unrolled. `10_reduction` uses all of this unit.
#
# **In practice** swizzling is what tensor-core kernels do (`16_matmul_hopper`): padding would break the alignment that
# 16-byte copies need.
#
# **Reading.** [CUDA C++ Programming Guide, shared
# memory](https://docs.nvidia.com/cuda/cuda-c-programming-guide/#shared-memory): banks for each generation.

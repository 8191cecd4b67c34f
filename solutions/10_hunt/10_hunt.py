# %% [markdown]
# # Bug hunt: shared memory
#
# **You will** find one bug in each of three kernels that use shared memory. First the kernels show only what they do:
# cases that fail, values, counts. You name line and cause, then you fix the kernel.
#
# **You will learn to**
# - tell a wrong index from a missing wait;
# - notice a bug whose results are right;
# - read counts of bank conflicts as evidence.
#
# **You need** `09_shared_memory`. About 45 minutes. You need no GPU.
#
# Do not run the checks of the last section before you have named the bugs: they name causes, too.

# %% cell="setup"

# %% cell="given" id="launchers"
def cdiv(n, block):
    return (n + block - 1) // block


def conv1d(x, weights, out):
    n, radius = x.numel(), weights.numel() // 2
    conv1d_kernel[cdiv(n, 1024), 128](out, x, weights, radius, n)


def transpose_padded(x, out):
    M, N = x.shape
    transpose_padded_kernel[(cdiv(N, 64), cdiv(M, 64)), (64, 4)](out, x, M, N)


def smooth(x, steps, out):
    n = x.numel()
    smooth_kernel[cdiv(n, 256), 256](out, x, steps, n)


# %% [markdown]
# ## 1 A convolution
#
# Each output is a weighted sum of the inputs around it. A block first copies its inputs with a halo of 8 elements on
# both sides into shared memory. For arrays of up to a thousand elements, all results are right.

# %% cell="hunt" id="conv1d_kernel" exercise="10_hunt/conv1d"
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
#         float value = 0.0f;
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

# %%
lab.evidence("10_hunt/conv1d")

# %% [markdown]
# ## 2 A transpose of 64 × 64 tiles
#
# The results are right, and each request for global memory touches as few sectors as possible. Still, the kernel is
# slower than a copy.

# %% cell="hunt" id="transpose_padded_kernel" exercise="10_hunt/transpose_padded"
# %%cuda
# constexpr int TILE = 64, ROWS = 4;
#
# __global__ void transpose_padded_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
#     // out[n][m] = x[m][n]; one block of 64 * 4 threads transposes one tile.
#     // ### BEGIN SOLUTION
#     __shared__ float tile[TILE][TILE + 1];
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

# %%
import torch

lab.evidence("10_hunt/transpose_padded")
x = torch.randn(256, 192, device="cuda" if lab.device.has_gpu() else "cpu")
with lab.record():
    transpose_padded(x, torch.empty(192, 256, device=x.device))
lab.annotate(transpose_padded_kernel)

# %% [markdown]
# ## 3 Repeated smoothing
#
# In each iteration every element becomes the mean of itself and its two neighbors. A block smooths 256 elements by
# itself. On the author's GPU, the kernel passed all tests.

# %% cell="hunt" id="smooth_kernel" exercise="10_hunt/smooth"
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
#         __syncthreads();
#         tile[t] = mean;
#         __syncthreads();
#         // ### END SOLUTION
#     }
#     if (first + t < n) out[first + t] = tile[t];
# }

# %%
lab.evidence("10_hunt/smooth")

# %% [markdown]
# ## 4 Name the bugs
#
# Fill in `bug`: for each hunt, the line of its kernel's cell where the bug is, and the cause. Lines count from 1 (View
# → Show Line Numbers); `%%cuda` is line 1. If several lines can be changed to fix the bug, any of them is right.
#
# The causes to choose from:
#
# - loop ends early
# - bank conflict
# - barrier for a warp only
# - barrier in a branch
# - missing guard
# - wrong stride
# - uncoalesced access
# - missing accumulation
#
# <details><summary>Hint 1</summary><code>conv1d</code>: how many words has the tile, and how many of them does a block
# store?</details>
# <details><summary>Hint 2</summary><code>transpose_padded</code>: in which banks are the words that a warp reads in one
# request?</details>
# <details><summary>Hint 3</summary><code>smooth</code>: a thread reads the words of its two neighbors. Which neighbors
# are in another warp?</details>


# %% cell="solution" id="bug"
def bug(hunt):
    """Return the line and the cause of a hunt's bug, such as {"line": 12, "cause": "…"}.

    hunt  "conv1d" or "transpose_padded" or "smooth"
    """
    ### BEGIN SOLUTION
    found = {
        "conv1d": {"line": 11, "cause": "loop ends early"},
        "transpose_padded": {"line": 6, "cause": "bank conflict"},
        "smooth": {"line": 12, "cause": "barrier for a warp only"},
    }
    return found[hunt]
    ### END SOLUTION


# %% cell="check" exercise="10_hunt/bug"
lab.check("10_hunt/bug")

# %% [markdown]
# ## 5 Fix them
#
# Change the kernels in their cells above, run the cells, and check. A fix needs few characters or lines; the rest of
# the kernel is right.

# %% cell="check" exercise="10_hunt/conv1d"
lab.check("10_hunt/conv1d")

# %% cell="check" exercise="10_hunt/transpose_padded"
lab.check("10_hunt/transpose_padded")

# %% cell="check" exercise="10_hunt/smooth"
lab.check("10_hunt/smooth")

# %% [markdown]
# **Next.** `10_reduction` sums with a tree in shared memory; `11_hunt` has the bugs of such kernels.
#
# **In practice** a race often shows on one GPU and not on another, or only under load. `compute-sanitizer --tool
# racecheck` reports it whether or not the values were right.
#
# **Reading.** [Racecheck](https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html#racecheck-tool): what
# it reports, and what it cannot see.

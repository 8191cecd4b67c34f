# %% [markdown]
# # Bug hunt: the TMA, mbarriers and a ring of tiles
#
# **You will** find one bug in each of three kernels. First the kernels show only what they do: cases that fail, values,
# counts. You name line and cause, then you fix the kernel.
#
# **You will learn to**
# - find what orders a copy and the threads that use its data;
# - follow the phases of an mbarrier;
# - find bugs whose results are right on most days.
#
# **You need** `16_matmul_hopper` and `16_matmul_ring`. About 60 minutes. You need no GPU.
#
# Do not run the checks of the last section before you have named the bugs: they name causes, too.

# %% cell="setup"

# %% cell="given" id="launchers"
from triton import cdiv


def scale(x, factor, y):
    x, out = lab.aligned(x), lab.aligned(y, keep=False)
    grid = cdiv(y.shape[1], 64), cdiv(y.shape[0], 64)
    tma_scale[grid, 128](lab.tensor_map(x, (64, 64)), lab.tensor_map(out, (64, 64)), factor)
    if out is not y:
        y.copy_(out)


def boxes(x, rows, columns=64):
    return lab.tensor_map(x, (rows, columns), swizzle=128)


def in_rows(a, b, c, launch):
    """Call launch(a, b, c, M, N, K) on arrays aligned for the TMA; rows of c are padded to a multiple of 16 bytes."""
    a, b, out = lab.aligned(a), lab.aligned(b), lab.padded(c, keep=False)
    launch(a, b, out, *out.shape, a.shape[1])
    if out is not c:
        c.copy_(out[:, : c.shape[1]])


def tile(a, b, c):
    grid, shared = (cdiv(c.shape[1], 128), cdiv(c.shape[0], 128)), 2 * 128 * 64 * 2
    launch = matmul_tile[grid, 128, shared]
    in_rows(a, b, c, lambda a, b, c, *sizes: launch(boxes(a, 128), boxes(b, 128), c, *sizes))


def ring(a, b, c, stages=4):
    kernel = matmul_ring.module[f"matmul_ring<{stages}>"] if stages != 4 else matmul_ring
    launch = kernel[cdiv(c.shape[0], 128) * cdiv(c.shape[1], 256), 288, stages * (128 + 256) * 64 * 2]
    in_rows(a, b, c, lambda a, b, c, *sizes: launch(boxes(a, 128), boxes(b, 256), c, *sizes))


# %% [markdown]
# ## 1 Scale a matrix
#
# The TMA copies a box to shared memory, the threads scale it, and the TMA copies it back. The results were right for
# weeks. After an update of the compiler, some elements had the values from before the scaling.

# %% cell="hunt" id="tma_scale" exercise="19_hunt/scale"
# %%cuda
# #include <lab/hopper.cuh>
#
# // y = factor * x for fp16 matrices. A block of 128 threads scales the box of 64 x 64 elements at (row, column).
# __global__ void __launch_bounds__(128)
# tma_scale(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y, float factor) {
#     __shared__ __align__(128) half tile[64 * 64];
#     __shared__ uint64_t full;
#     int t = threadIdx.x, row = blockIdx.y * 64, column = blockIdx.x * 64;
#     // ### BEGIN SOLUTION
#     if (t == 0) {
#         mbarrier_init(&full, 1);
#         mbarrier_fence();
#     }
#     __syncthreads();
#     if (t == 0) {
#         mbarrier_expect(&full, sizeof(tile));
#         tma_load(tile, &x, &full, row, column);
#     }
#     mbarrier_wait(&full, 0);
#     for (int i = t; i < 64 * 64; i += 128) tile[i] = __float2half(factor * __half2float(tile[i]));
#     fence_async();
#     __syncthreads();
#     if (t == 0) {
#         tma_store(&y, tile, row, column);
#         tma_commit();
#         tma_wait<0>();
#     }
#     // ### END SOLUTION
# }

# %%
lab.evidence("19_hunt/scale")

# %% [markdown]
# ## 2 One tile at a time
#
# The kernel multiplies tiles by WGMMA. Its author tested it with K = 64.

# %% cell="hunt" id="matmul_tile" exercise="19_hunt/tile"
# %%cuda
# #include <lab/hopper.cuh>
#
# // Store a warpgroup's accumulators to c (M, N) at row m, column n. The index math follows wgmma's register layout.
# template <int COUNT>
# __device__ void store_sums(const float (&sum)[COUNT], half *c, int m, int n, int M, int N) {
#     int t = threadIdx.x % 128, row = m + t / 32 * 16 + t % 32 / 4, column = n + t % 4 * 2;
#     #pragma unroll
#     for (int i = 0; i < COUNT; i += 2) {
#         int r = row + i % 4 / 2 * 8, q = column + i / 4 * 8;
#         if (r < M && q < N) *reinterpret_cast<half2 *>(c + r * N + q) = __floats2half2_rn(sum[i], sum[i + 1]);
#     }
# }
#
# // c = a @ b^T: a (M, K), b (N, K), c (M, N). The boxes of a and of b have 128 x 64 elements.
# // A block is one warpgroup and computes 128 x 128 elements of c.
# __global__ void __launch_bounds__(128)
# matmul_tile(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, half *c, int M, int N,
#             int K) {
#     extern __shared__ __align__(1024) half memory[];
#     half *a_tile = memory, *b_tile = memory + 128 * 64;
#     __shared__ uint64_t full;
#     int m0 = blockIdx.y * 128, n0 = blockIdx.x * 128, steps = (K + 63) / 64;
#     float top[64], bottom[64];
#     if (threadIdx.x == 0) {
#         mbarrier_init(&full, 1);
#         mbarrier_fence();
#     }
#     __syncthreads();
#     for (int s = 0; s < steps; s++) {
#         // ### BEGIN SOLUTION
#         if (threadIdx.x == 0) {
#             mbarrier_expect(&full, 2 * 128 * 64 * sizeof(half));
#             tma_load(a_tile, &a, &full, m0, s * 64);
#             tma_load(b_tile, &b, &full, n0, s * 64);
#         }
#         mbarrier_wait(&full, s % 2);
#         wgmma_fence();
#         #pragma unroll
#         for (int k = 0; k < 64; k += 16) {
#             wgmma(top, wgmma_tile(a_tile + k), wgmma_tile(b_tile + k), s + k > 0);
#             wgmma(bottom, wgmma_tile(a_tile + 64 * 64 + k), wgmma_tile(b_tile + k), s + k > 0);
#         }
#         wgmma_commit();
#         wgmma_wait<0>();
#         __syncthreads();
#         // ### END SOLUTION
#     }
#     wgmma_wait<0>(top);
#     wgmma_wait<0>(bottom);
#     store_sums(top, c, m0, n0, M, N);
#     store_sums(bottom, c, m0 + 64, n0, M, N);
# }

# %%
lab.evidence("19_hunt/tile")

# %% [markdown]
# ## 3 A ring of tiles
#
# One warp copies tiles into a ring of four stages, and eight warps multiply them. Products with few tiles along K are
# always right. Long ones are wrong about once in a thousand launches.

# %% cell="hunt" id="matmul_ring" exercise="19_hunt/ring"
# %%cuda matmul_ring<4>
# #include <lab/hopper.cuh>
#
# template <int COUNT>
# __device__ void store_sums(const float (&sum)[COUNT], half *c, int m, int n, int M, int N) {
#     int t = threadIdx.x % 128, row = m + t / 32 * 16 + t % 32 / 4, column = n + t % 4 * 2;
#     #pragma unroll
#     for (int i = 0; i < COUNT; i += 2) {
#         int r = row + i % 4 / 2 * 8, q = column + i / 4 * 8;
#         if (r < M && q < N) *reinterpret_cast<half2 *>(c + r * N + q) = __floats2half2_rn(sum[i], sum[i + 1]);
#     }
# }
#
# // c = a @ b^T: a (M, K) in boxes of 128 x 64, b (N, K) in boxes of 256 x 64, c (M, N).
# // A block has nine warps and computes 128 x 256 elements of c.
# template <int STAGES>
# __global__ void __launch_bounds__(288, 1)
# matmul_ring(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, half *c, int M, int N,
#             int K) {
#     constexpr int A_TILE = 128 * 64, B_TILE = 256 * 64;
#     extern __shared__ __align__(1024) half memory[];
#     __shared__ uint64_t full[STAGES], empty[STAGES];
#     int warp = threadIdx.x / 32, lane = threadIdx.x % 32, steps = (K + 63) / 64;
#     int tiles_m = (M + 127) / 128, tiles_n = (N + 255) / 256;  // grouped ordering, as in unit 14
#     int first = blockIdx.x / (16 * tiles_n) * 16, within = blockIdx.x % (16 * tiles_n);
#     int rows = min(tiles_m - first, 16);
#     int m0 = (first + within % rows) * 128, n0 = within / rows * 256;
#     if (threadIdx.x == 0) {
#         for (int stage = 0; stage < STAGES; stage++) {
#             mbarrier_init(&full[stage], 1);
#             mbarrier_init(&empty[stage], 8);
#         }
#         mbarrier_fence();
#     }
#     __syncthreads();
#     if (warp == 8) {
#         for (int s = 0; s < steps && lane == 0; s++) {
#             int stage = s % STAGES, turn = s / STAGES;
#             half *tile = memory + stage * (A_TILE + B_TILE);
#             // ### BEGIN SOLUTION
#             mbarrier_wait(&empty[stage], (turn + 1) % 2);
#             mbarrier_expect(&full[stage], (A_TILE + B_TILE) * sizeof(half));
#             tma_load(tile, &a, &full[stage], m0, s * 64);
#             tma_load(tile + A_TILE, &b, &full[stage], n0, s * 64);
#             // ### END SOLUTION
#         }
#     } else {
#         int group = warp / 4;
#         float sum[128];
#         for (int s = 0; s < steps; s++) {
#             int stage = s % STAGES, turn = s / STAGES;
#             half *tile = memory + stage * (A_TILE + B_TILE);
#             // ### BEGIN SOLUTION
#             mbarrier_wait(&full[stage], turn % 2);
#             wgmma_fence();
#             #pragma unroll
#             for (int k = 0; k < 64; k += 16)
#                 wgmma(sum, wgmma_tile(tile + group * 64 * 64 + k), wgmma_tile(tile + A_TILE + k), s + k > 0);
#             wgmma_commit();
#             wgmma_wait<0>();
#             if (lane == 0) mbarrier_arrive(&empty[stage]);
#             // ### END SOLUTION
#         }
#         wgmma_wait<0>(sum);
#         store_sums(sum, c, m0 + group * 64, n0, M, N);
#     }
# }

# %%
lab.evidence("19_hunt/ring")

# %% [markdown]
# ## 4 Name the bugs
#
# Fill in `bug`: for each hunt, the line of its kernel's cell where the bug is, and the cause. Lines count from 1 (View
# → Show Line Numbers); `%%cuda` is line 1. If several lines can be changed to fix the bug, any of
# them is right.
#
# The causes to choose from:
#
# - missing fence
# - wrong parity
# - stage released too early
# - wrong number of bytes
# - missing barrier
# - accumulators reset
# - too many arrivals
# - wrong rows of A
#
# <details><summary>Hint 1</summary><code>scale</code>: by which path do the threads write the tile, and by which path
# does the TMA read it?</details>
# <details><summary>Hint 2</summary><code>tile</code>: which phase of <code>full</code> ends in iteration s? For which
# phase does each iteration wait?</details>
# <details><summary>Hint 3</summary><code>ring</code>: who may still read a stage at the moment when its
# <code>empty</code> completes a phase?</details>


# %% cell="solution" id="bug"
def bug(hunt):
    """Return the line and the cause of a hunt's bug, such as {"line": 12, "cause": "…"}.

    hunt  "scale" or "tile" or "ring"
    """
    ### BEGIN SOLUTION
    found = {
        "scale": {"line": 20, "cause": "missing fence"},
        "tile": {"line": 36, "cause": "wrong parity"},
        "ring": {"line": 57, "cause": "stage released too early"},
    }
    return found[hunt]
    ### END SOLUTION


# %% cell="check" exercise="19_hunt/bug"
lab.check("19_hunt/bug")

# %% [markdown]
# ## 5 Fix them
#
# Change the kernels in their cells above, run the cells, and check. A fix needs few characters or lines; the rest of
# the kernel is right.

# %% cell="check" exercise="19_hunt/scale"
lab.check("19_hunt/scale")

# %% cell="check" exercise="19_hunt/tile"
lab.check("19_hunt/tile")

# %% cell="check" exercise="19_hunt/ring"
lab.check("19_hunt/ring")

# %% [markdown]
# **Next.** `20_flash_cuda` uses tensor cores for attention, and `20_hunt` hides bugs in kernels for decoding.
#
# **In practice** bugs of this kind do not show in a test of results. Write beside each mbarrier who arrives, how often,
# and what its phase means, and keep a test that the emulator or a model of the phases runs.

# %% [markdown]
# # Tensor cores and asynchronous copies in CUDA C++
#
# **You will** write levels 6 and 7 of the matmul, now in [fp16](../glossary.md#fp16). Level 6 multiplies with [tensor
# cores](../glossary.md#tensor-core). Level 7 also copies the next tiles while it multiplies the current tiles.
#
# **You will learn to**
# - use tensor cores through [`wmma`](../glossary.md#wmma), their interface in CUDA C++;
# - build a [pipeline](../glossary.md#pipeline) of [asynchronous copies](../glossary.md#async-copy).
#
# **You need** `15_matmul_cuda_vector`.
#
# About 60 minutes. You need a GPU only to measure times.

# %% cell="setup"

# %% [markdown]
# ## Level 6: tensor cores
#
# A tensor core multiplies small fp16 matrices and accumulates in fp32. With `nvcuda::wmma`, a *warp* holds a 16 × 16
# matrix in its registers. Such a matrix is a [fragment](../glossary.md#fragment). The documentation does not say which
# lane holds which element.
#
# | function | what it does |
# |---|---|
# | `fill_fragment(fragment, value)` | sets all elements to `value` |
# | `load_matrix_sync(fragment, pointer, row_length)` | loads a fragment; its rows are `row_length` elements apart |
# | `mma_sync(d, a, b, c)` | computes d = a·b + c |
# | `store_matrix_sync` | stores a fragment; only the given `store_piece` calls it |
#
# All 32 lanes must call these functions together. A fragment of A is declared as `wmma::fragment<wmma::matrix_a, 16,
# 16, 16, half, wmma::row_major>`, and one of B with `wmma::matrix_b`.
#
# A block of 8 warps computes 128 × 128 elements of C. Each warp computes 64 × 32 elements, in 4 × 2 fragments. The
# warp's 64 × 32 elements start at row `wm` and column `wn` of the block's tile of C. [Tiles](../glossary.md#tile) of A
# and B have a depth of 32 along K. The functions `copy_tile` and `store_piece` are given. In [shared
# memory](../glossary.md#shared-memory), each row has 8 unused elements at its end, to avoid [bank
# conflicts](../glossary.md#bank-conflict). All elements have CUDA's fp16 type, `half`. As in level 3
# (`15_matmul_cuda`), the check allows K · (1/128 + 1/128) [sectors](../glossary.md#sector) loaded per sector stored:
# one term for A, one for B.
#
# <details><summary>Hint 1</summary>Along K, a tile has 32 elements and a fragment has 16, so loop over <code>k</code> =
# 0 and 16. For each <code>k</code>, load 4 fragments of A and 2 of B, then call <code>mma_sync</code> 8
# times.</details>
# <details><summary>Hint 2</summary>Fragment i of A starts at <code>&amp;a_tile[wm + 16 * i][k]</code>. Fragment j of B
# starts at <code>&amp;b_tile[k][wn + 16 * j]</code>. The row lengths are <code>PA</code> and <code>PB</code>.</details>
# <details><summary>Hint 3</summary>Each iteration along K needs a barrier after the copies, and a barrier after the
# products.</details>

# %% cell="solution" id="matmul_wmma"
# %%cuda
# #include <cuda_fp16.h>
# #include <mma.h>
# using namespace nvcuda;
#
# // tile[i][j] = x[row + i][column + j], or 0 outside x, which has shape (rows, columns). Rows of `tile` are PITCH
# // elements apart. All threads of the block call this function together. A thread copies 8 elements at a time.
# template <int ROWS, int COLUMNS, int PITCH>
# __device__ void copy_tile(half *tile, const half *x, int row, int column, int rows, int columns) {
#     for (int i = threadIdx.x; i < ROWS * COLUMNS / 8; i += blockDim.x) {
#         int r = i / (COLUMNS / 8), q = i % (COLUMNS / 8) * 8;
#         bool inside = row + r < rows && column + q < columns;
#         uint4 eight = make_uint4(0, 0, 0, 0);
#         if (inside) eight = *reinterpret_cast<const uint4 *>(x + (row + r) * columns + column + q);
#         *reinterpret_cast<uint4 *>(tile + r * PITCH + q) = eight;
#     }
# }
#
# // Store a 16 x 16 fragment to c at (m, n). `patch` is this warp's buffer of 16 x 20 floats in shared memory.
# __device__ void store_piece(float *patch, wmma::fragment<wmma::accumulator, 16, 16, 16, float> &sum, half *c, int m,
#                             int n, int M, int N) {
#     wmma::store_matrix_sync(patch, sum, 20, wmma::mem_row_major);
#     __syncwarp();
#     int r = threadIdx.x % 32 / 2, q = threadIdx.x % 2 * 8;
#     __align__(16) half eight[8];
#     for (int j = 0; j < 8; j++) eight[j] = __float2half(patch[r * 20 + q + j]);
#     if (m + r < M && n + q < N)
#         reinterpret_cast<uint4 *>(c)[((m + r) * N + n + q) / 8] = *reinterpret_cast<uint4 *>(eight);
#     __syncwarp();
# }
#
# // c = a @ b: a (M, K), b (K, N), c (M, N) in fp16, accumulated in fp32. K and N are divisible by 8.
# // A block of 256 threads computes 128 x 128 elements of c.
# __global__ void __launch_bounds__(256) matmul_wmma(const half *a, const half *b, half *c, int M, int N, int K) {
#     constexpr int BK = 32, PA = BK + 8, PB = 128 + 8;
#     __shared__ __align__(128) half a_tile[128][PA], b_tile[BK][PB];
#     __shared__ __align__(128) float patches[8][16 * 20];
#     int warp = threadIdx.x / 32, wm = warp / 4 * 64, wn = warp % 4 * 32;
#     int m0 = blockIdx.y * 128, n0 = blockIdx.x * 128;
#     wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[4][2];
#     for (int i = 0; i < 4; i++)
#         for (int j = 0; j < 2; j++) wmma::fill_fragment(sum[i][j], 0.0f);
#     for (int k0 = 0; k0 < K; k0 += BK) {
#         copy_tile<128, BK, PA>(&a_tile[0][0], a, m0, k0, M, K);
#         copy_tile<BK, 128, PB>(&b_tile[0][0], b, k0, n0, K, N);
#         // ### BEGIN SOLUTION
#         __syncthreads();
#         #pragma unroll
#         for (int k = 0; k < BK; k += 16) {
#             wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_piece[4];
#             wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_piece[2];
#             #pragma unroll
#             for (int i = 0; i < 4; i++) wmma::load_matrix_sync(a_piece[i], &a_tile[wm + 16 * i][k], PA);
#             #pragma unroll
#             for (int j = 0; j < 2; j++) wmma::load_matrix_sync(b_piece[j], &b_tile[k][wn + 16 * j], PB);
#             #pragma unroll
#             for (int i = 0; i < 4; i++)
#                 #pragma unroll
#                 for (int j = 0; j < 2; j++) wmma::mma_sync(sum[i][j], a_piece[i], b_piece[j], sum[i][j]);
#         }
#         __syncthreads();
#         // ### END SOLUTION
#     }
#     for (int i = 0; i < 4; i++)
#         for (int j = 0; j < 2; j++)
#             store_piece(patches[warp], sum[i][j], c, m0 + wm + 16 * i, n0 + wn + 16 * j, M, N);
# }

# %% cell="given" id="tensor"
from triton import cdiv

from labutils import ladder


def in_vectors(a, b, c, launch):
    """Call `launch(a, b, c, M, N, K)` after appending zeros, so that all rows have a multiple of 8 elements."""
    a, b, out = lab.padded(a), lab.padded(b, rows=True), lab.padded(c, keep=False)
    launch(a, b, out, a.shape[0], b.shape[1], a.shape[1])
    if out is not c:
        c.copy_(out[:, : c.shape[1]])


def grid_of(c, tile=128):
    return cdiv(c.shape[1], tile), cdiv(c.shape[0], tile)


def tensor(a, b, c):
    in_vectors(a, b, c, matmul_wmma[grid_of(c), 256])


# %% cell="check" exercise="15_matmul_tensor_cores/tensor"
lab.check("15_matmul_tensor_cores/tensor")

# %% [markdown]
# ## Level 7: asynchronous copies
#
# On GPUs since Ampere (sm_80), the instruction `cp.async` copies from memory to shared memory while threads continue.
# The data does not pass through registers.
#
# | function | what it does |
# |---|---|
# | `copy_async(to, from, inside)` of `lab/mma.cuh` | starts a copy of 16 bytes; if `inside` is false, writes zeros |
# | `__pipeline_commit()` | makes one group of all copies that this thread started since the last commit |
# | `__pipeline_wait_prior(n)` | waits until all groups except the latest n have arrived |
#
# Shared memory now has `STAGES` buffers, each for a tile of A and a tile of B. While the block multiplies the tiles in
# one buffer, copies to the other buffers are [in flight](../glossary.md#in-flight). The check allows one barrier per
# tile along K, in addition to the given barrier after the loop.
#
# Each warp now computes 64 × 64 elements, in 4 × 4 fragments. In level 6, a warp loaded 6 fragments for 8 products,
# 0.75 per product. Now it loads 8 fragments for 16 products, 0.5 per product, so it reads shared memory less often.
# Tiles of C are numbered in [grouped ordering](../glossary.md#grouped-ordering), as in `14_matmul_triton`. For small
# matrices, a block computes 128 × 128 elements, with tiles of depth 32, or 64 if K is at least 256. For large matrices,
# if the GPU allows 160 KB of shared memory per block, a block computes 256 × 128 elements, with tiles of depth 64.
#
# A warp processes a tile in steps of 16 along K. The warp has two sets of fragments: while it multiplies the fragments
# of one step, it loads the fragments of the next step into the other set. Three functions are given:
#
# | given function | what it does |
# |---|---|
# | `fetch(tile, buffer)` | starts to copy tiles number `tile` along K (of A and B) to `buffer`; past K it copies 0 |
# | `begin(buffer)` | loads the fragments of two steps from `buffer`; multiplies the last ones of the *previous* tile |
# | `go_on(buffer)` | multiplies the tile in `buffer`, except the last fragments: the next `begin` multiplies these |
#
# The last fragments are in registers then: after `go_on(buffer)`, the warp no longer reads this buffer. The variable
# `now` is the index of the buffer to multiply from, and `free` is the index of the buffer to fetch into. The given code
# after the loop multiplies the last fragments of the last tile.
#
# <details><summary>Hint 1</summary>Before the loop, fetch tiles 0 to <code>STAGES</code> − 2 and commit after each.
# <code>fetch</code> copies zeros past the end, so you need no <code>if</code>.</details>
# <details><summary>Hint 2</summary>In iteration s, first call <code>__pipeline_wait_prior(STAGES - 2)</code>, then
# <code>__syncthreads()</code>. After this barrier, all copies of tile s have arrived, and no thread still reads tile s
# − 1.</details>
# <details><summary>Hint 3</summary>Then call <code>begin</code> on buffer <code>now</code>. Buffer <code>free</code>
# held tile s − 1, so fetch tile s + <code>STAGES</code> − 1 into this buffer, and commit. Call <code>go_on</code> on
# buffer <code>now</code>. Last, set <code>free</code> to <code>now</code>, and then <code>now</code> to the next
# buffer. The next buffer after the last one is buffer 0.</details>

# %% cell="solution" id="matmul_pipelined"
# %%cuda matmul_pipelined<2,2,32,3>
# #include <cuda_fp16.h>
# #include <cuda_pipeline.h>
# #include <lab/mma.cuh>
# #include <mma.h>
# using namespace nvcuda;
#
# // Like copy_tile of level 6, but asynchronous. Elements outside x become 0, and their addresses are not read.
# template <int ROWS, int COLUMNS, int PITCH, int THREADS>
# __device__ void copy_tile(half *tile, const half *x, int row, int column, int rows, int columns) {
#     constexpr int ACROSS = COLUMNS / 8, DOWN = THREADS / ACROSS;  // threads per row, and rows of threads
#     int r = threadIdx.x / ACROSS, q = threadIdx.x % ACROSS * 8;
#     const half *from = x + size_t(row + r) * columns + column + q;
#     half *to = tile + r * PITCH + q;
#     int left = column + q < columns ? rows - row - r : 0;
#     #pragma unroll
#     for (int p = 0; p < ROWS; p += DOWN) copy_async(to + p * PITCH, from + size_t(p) * columns, p < left);
# }
#
# __device__ void store_piece(float *patch, wmma::fragment<wmma::accumulator, 16, 16, 16, float> &sum, half *c, int m,
#                             int n, int M, int N) {
#     wmma::store_matrix_sync(patch, sum, 20, wmma::mem_row_major);
#     __syncwarp();
#     int r = threadIdx.x % 32 / 2, q = threadIdx.x % 2 * 8;
#     __align__(16) half eight[8];
#     for (int j = 0; j < 8; j++) eight[j] = __float2half(patch[r * 20 + q + j]);
#     if (m + r < M && n + q < N)
#         reinterpret_cast<uint4 *>(c)[((m + r) * N + n + q) / 8] = *reinterpret_cast<uint4 *>(eight);
#     __syncwarp();
# }
#
# // Same product as matmul_wmma. A block has WARPS_M x WARPS_N warps. Each warp computes 64 x 64 elements of c.
# // There are STAGES buffers for tiles of depth BK.
# template <int WARPS_M, int WARPS_N, int BK, int STAGES>
# __global__ void __launch_bounds__(32 * WARPS_M * WARPS_N)
# matmul_pipelined(const half *a, const half *b, half *c, int M, int N, int K) {
#     constexpr int BM = 64 * WARPS_M, BN = 64 * WARPS_N, PA = BK + 8, PB = BN + 8;
#     constexpr int A_TILE = BM * PA, B_TILE = BK * PB, THREADS = 32 * WARPS_M * WARPS_N;
#     extern __shared__ __align__(128) half memory[];
#     int warp = threadIdx.x / 32, wm = warp / WARPS_N * 64, wn = warp % WARPS_N * 64;
#     int tiles_m = (M + BM - 1) / BM, tiles_n = (N + BN - 1) / BN, tiles_k = (K + BK - 1) / BK;
#     int first = blockIdx.x / (8 * tiles_n) * 8, rows = min(tiles_m - first, 8), within = blockIdx.x % (8 * tiles_n);
#     int m0 = (first + within % rows) * BM, n0 = within / rows * BN;
#     wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[4][4];
#     wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_piece[2][4];  // one set is loaded while the
#     wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_piece[2][4];  // other set is multiplied
#     #pragma unroll
#     for (int i = 0; i < 4; i++) {
#         #pragma unroll
#         for (int j = 0; j < 4; j++) wmma::fill_fragment(sum[i][j], 0.0f);
#         wmma::fill_fragment(a_piece[1][i], half(0.0f));
#         wmma::fill_fragment(b_piece[1][i], half(0.0f));
#     }
#
#     auto fetch = [&](int tile, int buffer) {  // start to copy; tiles past the end are zeros
#         half *to = memory + buffer * (A_TILE + B_TILE);
#         copy_tile<BM, BK, PA, THREADS>(to, a, m0, tile * BK, M, K);
#         copy_tile<BK, BN, PB, THREADS>(to + A_TILE, b, tile * BK, n0, K, N);
#     };
#     auto read = [&](int buffer, int k) {
#         const half *a_tile = memory + buffer * (A_TILE + B_TILE), *b_tile = a_tile + A_TILE;
#         #pragma unroll
#         for (int i = 0; i < 4; i++)
#             wmma::load_matrix_sync(a_piece[k / 16 % 2][i], a_tile + (wm + 16 * i) * PA + k, PA);
#         #pragma unroll
#         for (int j = 0; j < 4; j++) wmma::load_matrix_sync(b_piece[k / 16 % 2][j], b_tile + k * PB + wn + 16 * j, PB);
#     };
#     auto multiply = [&](int k) {
#         #pragma unroll
#         for (int i = 0; i < 4; i++)
#             #pragma unroll
#             for (int j = 0; j < 4; j++)
#                 wmma::mma_sync(sum[i][j], a_piece[k / 16 % 2][i], b_piece[k / 16 % 2][j], sum[i][j]);
#     };
#     auto begin = [&](int buffer) {  // load the first 32 of a tile's depth; multiply the last 16 of the previous tile
#         read(buffer, 0);
#         multiply(BK - 16);
#         read(buffer, 16);
#     };
#     auto go_on = [&](int buffer) {  // multiply a tile except its last 16, which stay in registers
#         multiply(0);
#         #pragma unroll
#         for (int k = 16; k < BK - 16; k += 16) {
#             read(buffer, k + 16);
#             multiply(k);
#         }
#     };
#
#     int now = 0, free = STAGES - 1;  // the buffer to multiply from, and the buffer to fetch into
#     // ### BEGIN SOLUTION
#     #pragma unroll
#     for (int s = 0; s < STAGES - 1; s++) {
#         fetch(s, s);
#         __pipeline_commit();
#     }
#     for (int s = 0; s < tiles_k; s++) {
#         __pipeline_wait_prior(STAGES - 2);
#         __syncthreads();
#         begin(now);
#         fetch(s + STAGES - 1, free);
#         __pipeline_commit();
#         go_on(now);
#         free = now;
#         now = now + 1 == STAGES ? 0 : now + 1;
#     }
#     // ### END SOLUTION
#     multiply(BK - 16);
#     __pipeline_wait_prior(0);  // zeros past the end may still be in flight to the memory of `patch`
#     __syncthreads();
#     float *patch = reinterpret_cast<float *>(memory) + warp * 16 * 20;
#     #pragma unroll
#     for (int i = 0; i < 4; i++)
#         #pragma unroll
#         for (int j = 0; j < 4; j++) store_piece(patch, sum[i][j], c, m0 + wm + 16 * i, n0 + wn + 16 * j, M, N);
# }

# %% cell="given" id="pipelined"
SMALL, DEEP, LARGE = (2, 2, 32, 3), (2, 2, 64, 3), (4, 2, 64, 3)  # warps along M and N, depth of a tile, stages


def needs(c, warps_m, warps_n, depth, stages):
    """Return the number of blocks, and the bytes of shared memory per block."""
    bm, bn = 64 * warps_m, 64 * warps_n
    return cdiv(c.shape[0], bm) * cdiv(c.shape[1], bn), 2 * stages * (bm * (depth + 8) + depth * (bn + 8))


def pipelined(a, b, c, config=None):
    gpu, (blocks, shared) = lab.device.current(), needs(c, *LARGE)
    limit = 1024 * gpu.limits.shared_per_block_kb if gpu else shared
    large = gpu and blocks >= gpu.sms and shared <= limit
    deep = a.shape[1] >= 256 and needs(c, *DEEP)[1] <= limit
    config = config or (LARGE if large else DEEP if deep else SMALL)
    kernel, (blocks, shared) = matmul_pipelined, needs(c, *config)
    if config != SMALL:
        kernel = kernel.module["matmul_pipelined<{},{},{},{}>".format(*config)]
    in_vectors(a, b, c, kernel[blocks, 32 * config[0] * config[1], shared])


# %% cell="check" exercise="15_matmul_tensor_cores/pipelined"
lab.check("15_matmul_tensor_cores/pipelined")

# %%
lab.claims("15_matmul_tensor_cores")  # a two-minute quiz: predict each number, then compare
# For both levels, this cell counts memory accesses. On a GPU, it also measures the speed.
ladder.show_counts({}, {"tensor": tensor, "pipelined": pipelined})
ladder.show_rates({}, {"tensor": tensor, "pipelined": pipelined})

# %% [markdown]
# **Next.** `16_hunt` hides bugs in kernels like these. In `16_matmul_hopper`, the [TMA](../glossary.md#tma) copies
# tiles, and [warpgroups](../glossary.md#warpgroup) of four warps multiply them. In this notebook you can still try two
# more steps:
#
# - Replace `wmma` with [`mma.sync`](../glossary.md#mmasync), and load fragments with
#   [`ldmatrix`](../glossary.md#ldmatrix).
# - Replace the padding of rows with an XOR [swizzle](../glossary.md#swizzle).
#
# **In practice** you call cuBLAS, or use CUTLASS, NVIDIA's C++ templates for such kernels. You write your own kernel
# for other dtypes or [epilogues](../glossary.md#epilogue).
#
# **Reading.** [CUTLASS: fast linear algebra in CUDA
# C++](https://developer.nvidia.com/blog/cutlass-linear-algebra-cuda/) explains why a block, a warp and a thread have
# different tile sizes.

# %% [markdown]
# # Vectorized loads and double buffering in CUDA C++
#
# **You will** write levels 4 and 5 of the fp32 [matmul](../glossary.md#matmul) that `15_matmul_cuda` began. On an H200,
# level 5 reaches {claim: double_of_cublas} of the speed of cuBLAS, NVIDIA's library.
#
# **You will learn to**
# - load 16 bytes per instruction without [bank conflicts](../glossary.md#bank-conflict);
# - overlap the loads of the next [tile](../glossary.md#tile) with arithmetic.
#
# **You need** `15_matmul_cuda`.
#
# About 45 minutes. You need a GPU only to measure times.

# %% cell="setup"

# %% [markdown]
# ## Level 4: vectorized loads
#
# A [`float4` load](../glossary.md#vectorized-access) reads four contiguous elements, 16 bytes, with one instruction.
# For each k, a thread needs 8 elements of a column of A. So A's tile is stored
# [*transposed*](../glossary.md#transposed-tile), as `a_tile[k][m]`: one load then reads four of these elements. A
# thread computes 8 × 8 elements of the block's tile of C:
#
# - in rows `row` to `row + 3`, and `row + 32` to `row + 35`;
# - in columns `column` to `column + 3`, and `column + 16` to `column + 19`.
#
# The given code computes `row` and `column` such that the loads have no bank conflicts. Shared memory serves a 16-byte
# load for eight lanes at a time, or for 16 lanes if each pair of lanes (2i, 2i + 1) reads the same address. So in your
# kernel, the two lanes of a pair read the same elements of B. Each group of eight consecutive lanes reads eight
# adjacent elements of A: the four even lanes read the first four, and the four odd lanes read the next four.
#
# Each row of A's tile has four unused elements at its end ([padding](../glossary.md#padding)). With this padding, the
# stores to the transposed tile have no conflicts either. The given function `load4` loads four elements of a row, and
# returns zeros outside the matrix.
#
# The check averages the bytes per [request](../glossary.md#request) over all loads from memory, and over all loads from
# shared memory. Both averages must be at least 510; the maximum is 32 · 16 = 512.
#
# <details><summary>Hint 1</summary>To fill A's tile, load <code>float4 v = load4(a, …)</code>. Store its four
# components in the same column of four rows of <code>a_tile</code>. For B, store the whole <code>float4</code> at
# once.</details>
# <details><summary>Hint 2</summary>Thread <code>t</code> copies one <code>float4</code> of A and one of B. The four
# elements of A start at row <code>m = t / 2</code>, column <code>k = t % 2 * 4</code> of A's tile before it is
# transposed. The four elements of B start at row <code>k = t / 32</code>, column <code>n = t % 32 * 4</code> of B's
# tile.</details>
# <details><summary>Hint 3</summary>Declare <code>float a_reg[8], b_reg[8];</code>. Then <code>*(float4 *)&amp;a_reg[0]
# = *(float4 *)&amp;a_tile[k][row]</code> copies four elements at once. You need three more lines of this kind. (In C++
# style, <code>(float4 *)</code> is <code>reinterpret_cast&lt;float4 *&gt;</code>: it treats an address as the address
# of a <code>float4</code>.)</details>

# %% cell="solution" id="matmul_vector"
# %%cuda
# // Load four contiguous elements of x, which has shape (rows, columns). Outside x, return 0. `column` and `columns`
# // are multiples of 4.
# __device__ float4 load4(const float *x, int row, int column, int rows, int columns) {
#     if (row >= rows || column >= columns) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#     return *reinterpret_cast<const float4 *>(x + row * columns + column);
# }
#
# // c = a @ b, as in level 1, but K and N are divisible by 4.
# // A block of 256 threads computes 128 x 128 elements of c, and each thread computes 8 x 8 elements.
# __global__ void __launch_bounds__(256, 2)
# matmul_vector(const float *a, const float *b, float *c, int M, int N, int K) {
#     __shared__ __align__(16) float a_tile[8][132], b_tile[8][128];
#     int t = threadIdx.x, lane = t % 32, warp = t / 32;
#     int m0 = blockIdx.y * 128, n0 = blockIdx.x * 128;
#     int row = warp / 4 * 64 + (lane / 8 * 2 + lane % 2) * 4, column = warp % 4 * 32 + lane / 2 % 4 * 4;
#     float sum[8][8] = {};
#     for (int k0 = 0; k0 < K; k0 += 8) {
#         // ### BEGIN SOLUTION
#         float4 v = load4(a, m0 + t / 2, k0 + t % 2 * 4, M, K);
#         a_tile[t % 2 * 4 + 0][t / 2] = v.x;
#         a_tile[t % 2 * 4 + 1][t / 2] = v.y;
#         a_tile[t % 2 * 4 + 2][t / 2] = v.z;
#         a_tile[t % 2 * 4 + 3][t / 2] = v.w;
#         *reinterpret_cast<float4 *>(&b_tile[t / 32][lane * 4]) = load4(b, k0 + t / 32, n0 + lane * 4, K, N);
#         __syncthreads();
#         #pragma unroll
#         for (int k = 0; k < 8; k++) {
#             float a_reg[8], b_reg[8];
#             *reinterpret_cast<float4 *>(&a_reg[0]) = *reinterpret_cast<float4 *>(&a_tile[k][row]);
#             *reinterpret_cast<float4 *>(&a_reg[4]) = *reinterpret_cast<float4 *>(&a_tile[k][row + 32]);
#             *reinterpret_cast<float4 *>(&b_reg[0]) = *reinterpret_cast<float4 *>(&b_tile[k][column]);
#             *reinterpret_cast<float4 *>(&b_reg[4]) = *reinterpret_cast<float4 *>(&b_tile[k][column + 16]);
#             #pragma unroll
#             for (int i = 0; i < 8; i++)
#                 #pragma unroll
#                 for (int j = 0; j < 8; j++) sum[i][j] += a_reg[i] * b_reg[j];
#         }
#         __syncthreads();
#         // ### END SOLUTION
#     }
#     #pragma unroll
#     for (int i = 0; i < 8; i++)
#         #pragma unroll
#         for (int j = 0; j < 8; j += 4) {
#             int m = m0 + row + i % 4 + i / 4 * 32, n = n0 + column + j * 4;
#             float4 v = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
#             if (m < M && n < N) *reinterpret_cast<float4 *>(c + m * N + n) = v;
#         }
# }

# %% cell="given" id="launchers"
from triton import cdiv

from labutils import ladder


def in_vectors(a, b, c, launch):
    """Call `launch(a, b, c, M, N, K)` after appending zeros, so that all rows have a multiple of 4 elements."""
    a, b, out = lab.padded(a), lab.padded(b, rows=True), lab.padded(c, keep=False)
    launch(a, b, out, a.shape[0], b.shape[1], a.shape[1])
    if out is not c:
        c.copy_(out[:, : c.shape[1]])


def grid_of(c, tile=128):
    return cdiv(c.shape[1], tile), cdiv(c.shape[0], tile)


def vector(a, b, c):
    in_vectors(a, b, c, matmul_vector[grid_of(c), 256])


def double(a, b, c):
    in_vectors(a, b, c, matmul_double[grid_of(c), 256])


# %% cell="check" exercise="15_matmul_cuda_vector/vector"
lab.check("15_matmul_cuda_vector/vector")

# %% [markdown]
# ## Level 5: double buffering
#
# In level 4, a block loads nothing from memory while it computes. With *two* buffers in shared memory, a block can load
# and compute at the same time ([double buffering](../glossary.md#double-buffering)). Each buffer holds a tile of A and
# a tile of B. In each iteration, the threads
#
# 1. start to load the next tiles into registers (`fetch`);
# 2. multiply the tiles in the current buffer (`multiply`);
# 3. store the registers to the other buffer (`put`);
# 4. wait at one barrier.
#
# The names in parentheses are those of three given functions: call them in this order. They are C++
# [lambdas](../glossary.md#lambda): functions that are defined inside the kernel and can use the kernel's variables. The
# variable `now` is the index of the current buffer. Put `#pragma unroll 2` before the loop: the compiler then makes two
# copies of the loop body. In each copy, `now` and the addresses of the buffers are constants. On an H200, this
# unrolling makes the kernel {claim: double_buffer_unroll} faster. The check allows 9 barriers for 8 tiles along K: one
# per tile, and one before the loop.
#
# <details><summary>Hint 1</summary>Before the loop, fetch the first tiles, put them into buffer 0, and wait at a
# barrier.</details>
# <details><summary>Hint 2</summary>In the loop over <code>k0</code> = 0, BK, 2 · BK, …, first fetch the tiles at
# <code>k0 + BK</code>, if <code>k0 + BK</code> &lt; K. Then multiply from buffer <code>now</code>, put the fetched
# tiles into buffer <code>1 - now</code>, and wait at the barrier. Last, swap the buffers.</details>
# <details><summary>Hint 3</summary>One barrier per iteration is enough. After this barrier, all threads have read the
# current buffer, so the next iteration may overwrite it. All threads have also filled the other buffer, so the next
# iteration may read it.</details>

# %% cell="solution" id="matmul_double"
# %%cuda
# constexpr int BK = 8;                  // depth of a tile
# constexpr int EACH = 128 * BK / 1024;  // float4 values per thread for A's tile, and as many for B's tile
#
# __device__ float4 load4(const float *x, int row, int column, int rows, int columns) {
#     if (row >= rows || column >= columns) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#     return *reinterpret_cast<const float4 *>(x + row * columns + column);
# }
#
# // Same product as matmul_vector, with two buffers for tiles of depth BK.
# __global__ void __launch_bounds__(256, 2)
# matmul_double(const float *a, const float *b, float *c, int M, int N, int K) {
#     __shared__ __align__(16) float a_tile[2][BK][132], b_tile[2][BK][128];
#     int t = threadIdx.x, lane = t % 32, warp = t / 32;
#     int m0 = blockIdx.y * 128, n0 = blockIdx.x * 128;
#     int row = warp / 4 * 64 + (lane / 8 * 2 + lane % 2) * 4, column = warp % 4 * 32 + lane / 2 % 4 * 4;
#     float sum[8][8] = {};
#     float4 a_next[EACH], b_next[EACH];
#
#     auto fetch = [&](int k0) {  // start loading the tiles at k0 into registers
#         #pragma unroll
#         for (int i = 0; i < EACH; i++) {
#             int p = t + i * 256;
#             a_next[i] = load4(a, m0 + p / (BK / 4), k0 + p % (BK / 4) * 4, M, K);
#             b_next[i] = load4(b, k0 + p / 32, n0 + lane * 4, K, N);
#         }
#     };
#     auto put = [&](int buffer) {  // store the registers to shared memory; A's tile is transposed
#         #pragma unroll
#         for (int i = 0; i < EACH; i++) {
#             int p = t + i * 256, m = p / (BK / 4), k = p % (BK / 4) * 4;
#             a_tile[buffer][k + 0][m] = a_next[i].x;
#             a_tile[buffer][k + 1][m] = a_next[i].y;
#             a_tile[buffer][k + 2][m] = a_next[i].z;
#             a_tile[buffer][k + 3][m] = a_next[i].w;
#             *reinterpret_cast<float4 *>(&b_tile[buffer][p / 32][lane * 4]) = b_next[i];
#         }
#     };
#     auto multiply = [&](int buffer) {
#         #pragma unroll
#         for (int k = 0; k < BK; k++) {
#             float a_reg[8], b_reg[8];
#             *reinterpret_cast<float4 *>(&a_reg[0]) = *reinterpret_cast<float4 *>(&a_tile[buffer][k][row]);
#             *reinterpret_cast<float4 *>(&a_reg[4]) = *reinterpret_cast<float4 *>(&a_tile[buffer][k][row + 32]);
#             *reinterpret_cast<float4 *>(&b_reg[0]) = *reinterpret_cast<float4 *>(&b_tile[buffer][k][column]);
#             *reinterpret_cast<float4 *>(&b_reg[4]) = *reinterpret_cast<float4 *>(&b_tile[buffer][k][column + 16]);
#             #pragma unroll
#             for (int i = 0; i < 8; i++)
#                 #pragma unroll
#                 for (int j = 0; j < 8; j++) sum[i][j] += a_reg[i] * b_reg[j];
#         }
#     };
#
#     int now = 0;
#     // ### BEGIN SOLUTION
#     fetch(0);
#     put(0);
#     __syncthreads();
#     #pragma unroll 2  // makes `now` a constant in each copy of the body
#     for (int k0 = 0; k0 < K; k0 += BK) {
#         bool more = k0 + BK < K;
#         if (more) fetch(k0 + BK);
#         multiply(now);
#         if (more) {
#             put(1 - now);
#             __syncthreads();
#         }
#         now = 1 - now;
#     }
#     // ### END SOLUTION
#     #pragma unroll
#     for (int i = 0; i < 8; i++)
#         #pragma unroll
#         for (int j = 0; j < 8; j += 4) {
#             int m = m0 + row + i % 4 + i / 4 * 32, n = n0 + column + j * 4;
#             float4 v = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
#             if (m < M && n < N) *reinterpret_cast<float4 *>(c + m * N + n) = v;
#         }
# }

# %% cell="check" exercise="15_matmul_cuda_vector/double"
lab.check("15_matmul_cuda_vector/double")

# %%
lab.claims("15_matmul_cuda_vector")  # a two-minute quiz: predict each number, then compare
# For both levels, this cell counts accesses to memory and to shared memory. On a GPU, it also measures the speed.
ladder.show_counts({"vector": vector, "double": double}, {})
ladder.show_rates({"vector": vector, "double": double}, {})

# %% [markdown]
# **Next.** `15_matmul_tensor_cores` computes the same product in fp16. In this notebook you can still try tiles that
# have 16 elements along K: set `BK` to 16 in level 5.

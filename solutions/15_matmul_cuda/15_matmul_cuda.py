# %% [markdown]
# # Climb from a naive matmul to tensor cores in CUDA C++
#
# **You will** write the same matrix product seven times; each version repairs what holds the one before back.
#
# **You will learn to**
# - share loads: in a warp by coalescing, in a block by shared memory, in a thread by registers;
# - count, without a GPU, what each step saves: sectors, reads of shared memory, barriers;
# - use tensor cores through `wmma`, and keep them fed by copies that run beside them.
#
# **You need** `08_coalescing`, `09_shared_memory` and `14_matmul_triton`.
#
# About 150 minutes. Works without a GPU; only times need one.

# %% cell="setup"

# %% [markdown]
# ## Predict: what does a tile save?
#
# A block computes a tile of `block_m` × `block_n` elements of C. For each step along K it reads `block_m` elements of A
# and `block_n` of B from memory, and does a multiply-add, two FLOPs, for each element of the tile. A thread that has
# `thread_m` × `thread_n` elements of it in registers reads `thread_m` + `thread_n` numbers from shared memory for each
# step. So: how many FLOPs for each byte from memory, and how many reads of shared memory for each multiply-add?


# %% cell="solution" id="ledgers"
def tile_intensity(block_m, block_n, itemsize):
    """FLOPs for each byte of A and B that a block reads."""
    ### BEGIN SOLUTION
    return 2 * block_m * block_n / ((block_m + block_n) * itemsize)
    ### END SOLUTION


def shared_reads(thread_m, thread_n):
    """Numbers that a thread reads from shared memory for each multiply-add."""
    ### BEGIN SOLUTION
    return (thread_m + thread_n) / (thread_m * thread_n)
    ### END SOLUTION


# %% cell="check" exercise="15_matmul_cuda/tile_intensity"
lab.check("15_matmul_cuda/tile_intensity")

# %% cell="check" exercise="15_matmul_cuda/shared_reads"
lab.check("15_matmul_cuda/shared_reads")

# %% cell="given"
# %%cuda
# // A neighbour, finished and slow: threads side by side take elements of C below each other.
# __global__ void matmul_by_columns(const float *a, const float *b, float *c, int M, int N, int K) {
#     int m = blockIdx.x * blockDim.x + threadIdx.x;
#     int n = blockIdx.y * blockDim.y + threadIdx.y;
#     if (m >= M || n >= N) return;
#     float sum = 0.0f;
#     for (int k = 0; k < K; k++) sum += a[m * K + k] * b[k * N + n];
#     c[m * N + n] = sum;
# }

# %% cell="given"
from triton import cdiv

from labutils import ladder


def by_columns(a, b, c):
    M, K, N = *a.shape, b.shape[1]
    matmul_by_columns[(cdiv(M, 32), cdiv(N, 8)), (32, 8)](a, b, c, M, N, K)


lab.coalescing(lambda lane: 4 * lane * 64, title="32 lanes below each other read a[m][k], rows of 64 floats")

# %% [markdown]
# ## Level 1: the right neighbours
#
# Matrices lie row by row: element (m, k) of A is `a[m * K + k]`. All levels take M, N, K from 1 on.
#
# In the slow kernel each load of A touches 32 sectors, and each store too. Let threads side by side take elements of C
# side by side: `threadIdx.x` counts columns. Then a warp reads one number of A, which all lanes share, and 32
# neighbours of B. The grid of your launcher has columns in x, too.
#
# <details><summary>Hint 1</summary>Only the two indices change places.</details>
# <details><summary>Hint 2</summary><code>n = blockIdx.x * blockDim.x + threadIdx.x</code>, and m the same in
# y.</details>
# <details><summary>Hint 3</summary>Guard both: the grid is rounded up in both directions.</details>

# %% cell="solution" id="matmul_naive"
# %%cuda
# // c = a @ b: a (M, K), b (K, N), c (M, N), row by row. One thread computes one element; columns run along x.
# __global__ void matmul_naive(const float *a, const float *b, float *c, int M, int N, int K) {
#     // ### BEGIN SOLUTION
#     int n = blockIdx.x * blockDim.x + threadIdx.x;
#     int m = blockIdx.y * blockDim.y + threadIdx.y;
#     if (m >= M || n >= N) return;
#     float sum = 0.0f;
#     for (int k = 0; k < K; k++) sum += a[m * K + k] * b[k * N + n];
#     c[m * N + n] = sum;
#     // ### END SOLUTION
# }


# %% cell="given" id="naive"
def naive(a, b, c):
    M, K, N = *a.shape, b.shape[1]
    matmul_naive[(cdiv(N, 32), cdiv(M, 8)), (32, 8)](a, b, c, M, N, K)


lab.tiny("15_matmul_cuda/naive")

# %% cell="check" exercise="15_matmul_cuda/naive"
lab.check("15_matmul_cuda/naive")

# %% [markdown]
# When a check of this unit fails:
#
# | what it says | a common cause |
# |---|---|
# | `missing-syncthreads` | no barrier after filling a tile, or none before it is filled again |
# | `uninitialised-shared`, `out-of-bounds` | what lies past the matrix was not replaced by 0 |
# | `missing-accumulation` | the sum starts anew with each tile, or only one tile is summed |
# | `transposed`, `wrong-values` | rows and columns of a tile changed places between storing and reading |
# | points for counts are missing | right, but the line above shows what is still read too often |
#
# ## Level 2: a tile for the block
#
# Every element of A is still read by each of N / 32 blocks, and every element of B by each of a block's rows of threads
# too. Let a block of 32 × 32 threads bring a 32 × 32 tile of A and one of B to shared memory, each thread one element
# of each; then every thread sums 32 products from there; then the next tiles along K. Elements past the matrix become
# 0.
#
# <details><summary>Hint 1</summary>Two barriers for each pair of tiles: after filling them, and before they are filled
# again.</details>
# <details><summary>Hint 2</summary>Thread (tx, ty) brings <code>a</code> at row m, column k0 + tx, and <code>b</code>
# at row k0 + ty, column n. Each of the two has a guard of its own.</details>
# <details><summary>Hint 3</summary>No thread may return early: those outside C bring elements for others, and all must
# reach the barriers. Only the store is guarded by m and n.</details>

# %% cell="solution" id="matmul_shared"
# %%cuda
# // As matmul_naive. One block computes a tile of 32 x 32 elements with as many threads.
# __global__ void matmul_shared(const float *a, const float *b, float *c, int M, int N, int K) {
#     __shared__ float a_tile[32][32], b_tile[32][32];
#     int tx = threadIdx.x, ty = threadIdx.y;
#     int n = blockIdx.x * 32 + tx, m = blockIdx.y * 32 + ty;
#     float sum = 0.0f;
#     // ### BEGIN SOLUTION
#     for (int k0 = 0; k0 < K; k0 += 32) {
#         a_tile[ty][tx] = m < M && k0 + tx < K ? a[m * K + k0 + tx] : 0.0f;
#         b_tile[ty][tx] = k0 + ty < K && n < N ? b[(k0 + ty) * N + n] : 0.0f;
#         __syncthreads();
#         for (int k = 0; k < 32; k++) sum += a_tile[ty][k] * b_tile[k][tx];
#         __syncthreads();
#     }
#     // ### END SOLUTION
#     if (m < M && n < N) c[m * N + n] = sum;
# }


# %% cell="given" id="shared"
def shared(a, b, c):
    M, K, N = *a.shape, b.shape[1]
    matmul_shared[(cdiv(N, 32), cdiv(M, 32)), (32, 32)](a, b, c, M, N, K)


# %% cell="check" exercise="15_matmul_cuda/shared"
lab.check("15_matmul_cuda/shared")

# %% [markdown]
# ## Level 3: a tile for the thread
#
# Two reads of shared memory for each multiply-add: now these are the limit. Let a thread compute TM × TN elements. In
# each step it reads TM numbers of A and TN of B into registers, and multiplies each with each. The template is used
# twice: `<64, 64, 8, 1>` is a column in registers, `<128, 128, 8, 8>` a square. The check takes the square.
#
# The block's tile is BM × BN, 8 deep, with (BM / TM) · (BN / TN) threads in one dimension. Bringing the tiles in is
# given. Thread (tx, ty) has rows `ty * TM + i`, and columns `tx + j * (BN / TN)`: neighbours in x read neighbours.
#
# <details><summary>Hint 1</summary><code>float sum[TM][TN]</code> lives in registers if every index is known when the
# loops are unrolled: begin each inner loop with <code>#pragma unroll</code>.</details>
# <details><summary>Hint 2</summary>For each k: first read TM and TN numbers into two small arrays, then the double loop
# over i and j reads only those.</details>
# <details><summary>Hint 3</summary><code>a_reg[i] = a_tile[ty * TM + i][k]</code>,
# <code>b_reg[j] = b_tile[k][tx + j * (BN / TN)]</code>.</details>

# %% cell="solution" id="matmul_register"
# %%cuda matmul_register<128,128,8,8>
# // As matmul_naive. A block computes BM x BN elements, each of its (BM / TM) * (BN / TN) threads TM x TN of them.
# template <int BM, int BN, int TM, int TN>
# __global__ void __launch_bounds__(BM / TM * BN / TN)
# matmul_register(const float *a, const float *b, float *c, int M, int N, int K) {
#     constexpr int BK = 8, THREADS = (BM / TM) * (BN / TN), WIDE = BN / TN;
#     __shared__ float a_tile[BM][BK], b_tile[BK][BN];
#     int t = threadIdx.x, tx = t % WIDE, ty = t / WIDE;
#     int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
#     float sum[TM][TN] = {};
#     for (int k0 = 0; k0 < K; k0 += BK) {
#         for (int p = 0; p < BM * BK / THREADS; p++) {
#             int i = t + p * THREADS, m = m0 + i / BK, k = k0 + i % BK;
#             a_tile[i / BK][i % BK] = m < M && k < K ? a[m * K + k] : 0.0f;
#         }
#         for (int p = 0; p < BK * BN / THREADS; p++) {
#             int i = t + p * THREADS, k = k0 + i / BN, n = n0 + i % BN;
#             b_tile[i / BN][i % BN] = k < K && n < N ? b[k * N + n] : 0.0f;
#         }
#         __syncthreads();
#         // ### BEGIN SOLUTION
#         #pragma unroll
#         for (int k = 0; k < BK; k++) {
#             float a_reg[TM], b_reg[TN];
#             #pragma unroll
#             for (int i = 0; i < TM; i++) a_reg[i] = a_tile[ty * TM + i][k];
#             #pragma unroll
#             for (int j = 0; j < TN; j++) b_reg[j] = b_tile[k][tx + j * WIDE];
#             #pragma unroll
#             for (int i = 0; i < TM; i++)
#                 #pragma unroll
#                 for (int j = 0; j < TN; j++) sum[i][j] += a_reg[i] * b_reg[j];
#         }
#         __syncthreads();
#         // ### END SOLUTION
#     }
#     #pragma unroll
#     for (int i = 0; i < TM; i++)
#         #pragma unroll
#         for (int j = 0; j < TN; j++) {
#             int m = m0 + ty * TM + i, n = n0 + tx + j * WIDE;
#             if (m < M && n < N) c[m * N + n] = sum[i][j];
#         }
# }


# %% cell="given" id="register"
def register(a, b, c):
    M, K, N = *a.shape, b.shape[1]
    matmul_register[(cdiv(N, 128), cdiv(M, 128)), 256](a, b, c, M, N, K)


def register_column(a, b, c):
    M, K, N = *a.shape, b.shape[1]
    kernel = matmul_register.module["matmul_register<64,64,8,1>"]
    kernel[(cdiv(N, 64), cdiv(M, 64)), 512](a, b, c, M, N, K)


# %% cell="check" exercise="15_matmul_cuda/register"
lab.check("15_matmul_cuda/register")

# %% [markdown]
# ## Level 4: four at a time
#
# A read of `float4` is one instruction for 16 bytes. For that the four numbers must lie side by side: so A's tile is
# stored *transposed*, `a_tile[k][m]`, and a thread's 8 rows and 8 columns become two groups of four neighbours each.
# Its rows are `row`, …, `row + 3` and `row + 32`, …; its columns `column`, … and `column + 16`, …. Lanes of a warp form
# 8 × 4. They are numbered so that lanes 2i and 2i + 1 share their columns, and lanes two apart their rows: reads of 16
# bytes take a quarter of a warp at a time, and two quarters go together only where neighbours read the same in pairs.
# Rows of the tile are 132 long, so that the transposed stores meet no bank twice. `load4` reads four neighbours, or
# fewer at the edge.
#
# <details><summary>Hint 1</summary>To bring A in: <code>float4 v = load4(a, …)</code>, and its four parts go to four
# rows of <code>a_tile</code>, same column. B keeps its place: one store of a <code>float4</code>.</details>
# <details><summary>Hint 2</summary>256 threads, 128 × 8 numbers: each brings one <code>float4</code> of A and one of B.
# Row of A: t / 2, k: t % 2 · 4. Row of B: t / 32, column: t % 32 · 4.</details>
# <details><summary>Hint 3</summary><code>*(float4 *)&amp;a_reg[0] = *(float4 *)&amp;a_tile[k][row]</code>, and three
# more such lines.</details>

# %% cell="solution" id="matmul_vector"
# %%cuda
# // Four neighbours of row `row` of x (rows, columns); 0 for those outside. `column` and `columns` are multiples of 4.
# __device__ float4 load4(const float *x, int row, int column, int rows, int columns) {
#     if (row >= rows || column >= columns) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#     return *reinterpret_cast<const float4 *>(x + row * columns + column);
# }
#
# // As matmul_naive, for rows of whole float4. A block of 256 threads computes 128 x 128 elements, 8 x 8 each.
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


# %% cell="given" id="vector"
def in_vectors(a, b, c, launch):
    """Call `launch(a, b, c, M, N, K)` on matrices whose rows are whole vectors, with zeros where they had to grow."""
    a, b, out = lab.padded(a), lab.padded(b, rows=True), lab.padded(c, keep=False)
    launch(a, b, out, a.shape[0], b.shape[1], a.shape[1])
    if out is not c:
        c.copy_(out[:, : c.shape[1]])


def grid_of(c, tile=128):
    return cdiv(c.shape[1], tile), cdiv(c.shape[0], tile)


def vector(a, b, c):
    in_vectors(a, b, c, matmul_vector[grid_of(c), 256])


# %% cell="check" exercise="15_matmul_cuda/vector"
lab.check("15_matmul_cuda/vector")

# %% [markdown]
# ## Level 5: fetch the next tile while this one is multiplied
#
# Between the two barriers of a tile nobody loads, and while loads are under way nobody multiplies. With *two* tiles of
# A and B in shared memory a step is: start the loads of the next tiles into registers, multiply this one, store the
# registers to the other buffer, one barrier. Helpers and the multiplying are given; you write the order of things.
#
# Put `#pragma unroll 2` before your loop. In each of the two steps `now` is then a constant, and so are the buffers'
# addresses: 4 % faster on an H200.
#
# <details><summary>Hint 1</summary>Before the loop: fetch, put into buffer 0, barrier.</details>
# <details><summary>Hint 2</summary>In the loop, fetch the tiles at k0 + BK if there are any; multiply from buffer
# <code>now</code>; put into buffer <code>1 - now</code>; barrier; change over.</details>
# <details><summary>Hint 3</summary>One barrier is enough: who writes to a buffer has passed the barrier that followed
# the last reading of it.</details>

# %% cell="solution" id="matmul_double"
# %%cuda
# constexpr int BK = 8;                  // depth of a tile
# constexpr int EACH = 128 * BK / 1024;  // float4 of A, and of B, that a thread brings
#
# __device__ float4 load4(const float *x, int row, int column, int rows, int columns) {
#     if (row >= rows || column >= columns) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#     return *reinterpret_cast<const float4 *>(x + row * columns + column);
# }
#
# // As matmul_vector, with tiles BK deep in two buffers.
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
#     auto put = [&](int buffer) {  // from registers to shared memory, A transposed
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
#     #pragma unroll 2  // so that `now` is a constant in each step
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


# %% cell="given" id="double"
def double(a, b, c):
    in_vectors(a, b, c, matmul_double[grid_of(c), 256])


# %% cell="check" exercise="15_matmul_cuda/double"
lab.check("15_matmul_cuda/double")

# %% [markdown]
# ## Level 6: tensor cores
#
# A tensor core multiplies small matrices of fp16 and sums in fp32. With `nvcuda::wmma` a *warp* holds 16 × 16 pieces in
# its registers, `fragment`s; how they lie over the lanes is not yours to know. `load_matrix_sync(fragment, pointer,
# row_length)` reads one, `mma_sync(d, a, b, c)` computes d = a·b + c, `fill_fragment` and `store_matrix_sync` do what
# they say, and all 32 lanes call them together.
#
# A block of 8 warps computes 128 × 128; each warp 64 × 32, that is 4 × 2 pieces. Tiles are 32 deep. `copy_tile` and
# `store_piece` are given; rows in shared memory are 8 halves longer than needed, for the banks.
#
# <details><summary>Hint 1</summary>Within a tile two steps of 16 along K. In each: load 4 pieces of A and 2 of B, then
# 8 times <code>mma_sync</code>.</details>
# <details><summary>Hint 2</summary>Piece i of A begins at <code>&amp;a_tile[wm + 16 * i][k]</code>, piece j of B at
# <code>&amp;b_tile[k][wn + 16 * j]</code>; the row lengths are PA and PB.</details>
# <details><summary>Hint 3</summary>Barriers as in level 2: after the copies, and after the multiplying.</details>

# %% cell="solution" id="matmul_wmma"
# %%cuda
# #include <cuda_fp16.h>
# #include <mma.h>
# using namespace nvcuda;
#
# // tile[i][j] = x[row + i][column + j], 0 outside x (rows, columns); all threads of the block, 8 halves at a time.
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
# // A piece of 16 x 16 sums to c, through `patch`, 16 x 20 floats of the warp's own.
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
# // c = a @ b in fp16, sums in fp32, for rows of whole uint4. 256 threads compute 128 x 128 elements.
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
def tensor(a, b, c):
    in_vectors(a, b, c, matmul_wmma[grid_of(c), 256])


# %% cell="check" exercise="15_matmul_cuda/tensor"
lab.check("15_matmul_cuda/tensor")

# %% [markdown]
# ## Level 7: copies that run by themselves
#
# From Ampere on `cp.async` copies from memory to shared memory without passing registers. `copy_async(to, from,
# inside)` of `lab/mma.cuh` starts one of 16 bytes, or of zeros if not `inside`. Copies are grouped by
# `__pipeline_commit()`, and `__pipeline_wait_prior(n)` waits until at most n groups, the latest, are still under way.
# With STAGES buffers, STAGES − 1 tiles are on their way while one is multiplied: more than registers could hold, and
# one barrier a tile.
#
# Warps now compute 64 × 64, 4 × 4 pieces: 8 fragments read for 16 products, in place of 6 for 8, a third fewer. Blocks
# take tiles of C in groups of 8 rows, as in unit 14. Tiles are 128 × 128, and 32 deep; for large matrices, where a
# block may have 160 KB of shared memory, 256 × 128, and 64 deep. You write the pipeline.
#
# Tensor cores should not wait for shared memory either. So pieces have two sets of registers: 16 of a tile's depth are
# read while the 16 before are multiplied, also across the barrier. `begin(buffer)` begins to read a tile, and
# multiplies the last pieces *of the tile before*. `go_on(buffer)` multiplies the tile's own, all but the last, which it
# leaves in registers. So at the next barrier nobody reads this tile any more, though its last products are to come.
#
# <details><summary>Hint 1</summary>Before the loop: fetch tiles 0 … STAGES − 2, and commit after each of them. Past the
# end tiles are zeros, so no <code>if</code> is needed, and groups can be counted.</details>
# <details><summary>Hint 2</summary>In step s the latest STAGES − 2 groups may still be under way. Wait, then a barrier:
# now everyone's part of tile s is there, and nobody reads tile s − 1 any more.</details>
# <details><summary>Hint 3</summary>Begin tile s in buffer <code>now</code>. <code>free</code> held tile s − 1: fetch
# tile s + STAGES − 1 into it, commit, and go on with <code>now</code>. Then <code>now</code> becomes <code>free</code>,
# and the next buffer <code>now</code>; after the last one comes buffer 0.</details>

# %% cell="solution" id="matmul_pipelined"
# %%cuda matmul_pipelined<2,2,32,3>
# #include <cuda_fp16.h>
# #include <cuda_pipeline.h>
# #include <lab/mma.cuh>
# #include <mma.h>
# using namespace nvcuda;
#
# // As in level 6, but the copies are only started. What lies outside becomes 0, and its address is not read.
# template <int ROWS, int COLUMNS, int PITCH, int THREADS>
# __device__ void copy_tile(half *tile, const half *x, int row, int column, int rows, int columns) {
#     constexpr int ACROSS = COLUMNS / 8, DOWN = THREADS / ACROSS;  // threads side by side, and below each other
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
# // As matmul_wmma. WARPS_M x WARPS_N warps compute 64 x 64 elements each, with STAGES buffers of tiles BK deep.
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
#     wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_piece[2][4];  // one set is read while the
#     wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_piece[2][4];  // other one is multiplied
#     #pragma unroll
#     for (int i = 0; i < 4; i++) {
#         #pragma unroll
#         for (int j = 0; j < 4; j++) wmma::fill_fragment(sum[i][j], 0.0f);
#         wmma::fill_fragment(a_piece[1][i], half(0.0f));
#         wmma::fill_fragment(b_piece[1][i], half(0.0f));
#     }
#
#     auto fetch = [&](int tile, int buffer) {  // zeros past the end
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
#     auto begin = [&](int buffer) {  // read the first 32 of a tile's depth; multiply the last 16 of the tile before
#         read(buffer, 0);
#         multiply(BK - 16);
#         read(buffer, 16);
#     };
#     auto go_on = [&](int buffer) {  // multiply a tile but for its last 16, which are in registers then
#         multiply(0);
#         #pragma unroll
#         for (int k = 16; k < BK - 16; k += 16) {
#             read(buffer, k + 16);
#             multiply(k);
#         }
#     };
#
#     int now = 0, free = STAGES - 1;  // the buffer to multiply from, and the one to fetch to
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
#     __pipeline_wait_prior(0);  // zeros past the end may still be arriving where `patch` lies
#     __syncthreads();
#     float *patch = reinterpret_cast<float *>(memory) + warp * 16 * 20;
#     #pragma unroll
#     for (int i = 0; i < 4; i++)
#         #pragma unroll
#         for (int j = 0; j < 4; j++) store_piece(patch, sum[i][j], c, m0 + wm + 16 * i, n0 + wn + 16 * j, M, N);
# }


# %% cell="given" id="pipelined"
SMALL, LARGE = (2, 2, 32, 3), (4, 2, 64, 3)  # warps along M and N, depth of a tile, stages


def needs(c, warps_m, warps_n, depth, stages):
    """Blocks, and bytes of shared memory for each."""
    bm, bn = 64 * warps_m, 64 * warps_n
    return cdiv(c.shape[0], bm) * cdiv(c.shape[1], bn), 2 * stages * (bm * (depth + 8) + depth * (bn + 8))


def pipelined(a, b, c, config=None):
    gpu, (blocks, shared) = lab.device.current(), needs(c, *LARGE)
    large = gpu and blocks >= gpu.sms and shared <= 1024 * gpu.limits.shared_per_block_kb
    config = config or (LARGE if large else SMALL)
    kernel, (blocks, shared) = matmul_pipelined, needs(c, *config)
    if config != SMALL:
        kernel = kernel.module["matmul_pipelined<{},{},{},{}>".format(*config)]
    in_vectors(a, b, c, kernel[blocks, 32 * config[0] * config[1], shared])


# %% cell="check" exercise="15_matmul_cuda/pipelined"
lab.check("15_matmul_cuda/pipelined")

# %%
# The ladder: what each level asks of memory and of shared memory, counted; and its speed, where there is a GPU.
fp32 = {"by columns": by_columns, "naive": naive, "shared": shared, "register column": register_column}
fp32 |= {"register": register, "vector": vector, "double": double}
fp16 = {"tensor": tensor, "pipelined": pipelined}
ladder.show_counts(fp32, fp16)

# %%
ladder.show_rates(fp32, fp16)

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** From "shared" to "register" the loads from memory fall by 4, the reads of shared memory by 8. Which
# of the two made it faster, and how can you tell from the numbers of "register column"?
#
# ### BEGIN SOLUTION
# The reads of shared memory. Its 32 banks serve one request of a warp in a cycle, in which an SM could do four warps'
# FMAs. The compiler merges four of a row's elements of A into one 16-byte read, so "shared" makes 8 + 32 = 40 requests
# for 32 FMAs, and shared memory is the limit at a fifth of the peak. The column makes 8 + 4 = 12 requests for 32 FMAs,
# 0.375 each, and half the loads of "shared" (64 rows in place of 32). Most of its gain comes with the reads; memory,
# with 32 columns shared already, was not the limit any more.
# ### END SOLUTION

# %% [markdown]
# **Next.** `16_matmul_hopper`: copies by the TMA, products by whole warp groups (`wgmma`), and warps with different
# jobs. Try here: `mma.sync` with `ldmatrix` in place of `wmma`, and a XOR swizzle in place of longer rows.
#
# **In practice** you call cuBLAS, or take CUTLASS, whose templates are this ladder made general. You write your own
# when neither has your types or your epilogue.
#
# **Reading.** [How to optimise a CUDA matmul](https://siboehm.com/articles/22/CUDA-MMM) by Simon Boehm: the FP32 part
# of this ladder on an A6000, with a number after each step. [CUTLASS: fast linear algebra in CUDA
# C++](https://developer.nvidia.com/blog/cutlass-linear-algebra-cuda/): why tiles come in three sizes.

# %% [markdown]
# # Share loads in a CUDA C++ matmul
#
# **You will** write three versions of a [matmul](../glossary.md#matmul). Each version removes the bottleneck of the
# previous one.
#
# **You will learn to**
# - share loads among the lanes of a warp by [coalescing](../glossary.md#coalesced-access);
# - share loaded elements among the threads of a block through [shared memory](../glossary.md#shared-memory);
# - use loaded elements several times in one thread, with a [register tile](../glossary.md#register-tile);
# - count the [sectors](../glossary.md#sector) and the shared memory reads that each version saves.
#
# **You need** `08_coalescing`, `09_shared_memory` and `14_matmul_triton`.
#
# About 60 minutes. You need a GPU only to measure times.

# %% cell="setup"

# %% [markdown]
# ## Predict: what does a tile save?
#
# A block computes a [tile](../glossary.md#tile) of `block_m` × `block_n` elements of C. For each index k along K, the
# block reads `block_m` elements of A and `block_n` elements of B from memory. With these, the block does one
# [FMA](../glossary.md#fma) (a multiply-add, two FLOPs) per element of the tile. A thread of the block keeps `thread_m`
# × `thread_n` elements of the tile in registers. For each k, the thread reads `thread_m` + `thread_n` numbers from
# shared memory.
#
# 1. How many FLOPs does the block do per byte that it reads from memory? (This is its [arithmetic
#    intensity](../glossary.md#arithmetic-intensity).)
# 2. How many numbers does the thread read from shared memory per FMA?

# %% cell="solution" id="ledgers"
def tile_intensity(block_m, block_n, itemsize):
    """Return how many FLOPs a block does per byte that it reads from memory. One element has `itemsize` bytes."""
    ### BEGIN SOLUTION
    return 2 * block_m * block_n / ((block_m + block_n) * itemsize)
    ### END SOLUTION


def shared_reads(thread_m, thread_n):
    """Return how many numbers a thread reads from shared memory per FMA."""
    ### BEGIN SOLUTION
    return (thread_m + thread_n) / (thread_m * thread_n)
    ### END SOLUTION


# %% cell="check" exercise="15_matmul_cuda/tile_intensity"
lab.check("15_matmul_cuda/tile_intensity")

# %% cell="check" exercise="15_matmul_cuda/shared_reads"
lab.check("15_matmul_cuda/shared_reads")

# %% cell="given"
# %%cuda
# // Given, and slow: consecutive threads compute elements of C in consecutive rows.
# __global__ void matmul_by_columns(const float *a, const float *b, float *c, int M, int N, int K) {
#     int m = blockIdx.x * blockDim.x + threadIdx.x;
#     int n = blockIdx.y * blockDim.y + threadIdx.y;
#     if (m >= M || n >= N) return;
#     float sum = 0.0f;
#     for (int k = 0; k < K; k++) sum += a[m * K + k] * b[k * N + n];
#     c[m * N + n] = sum;
# }

# %% [markdown]
# ## Level 1: coalesced accesses
#
# Matrices are row-major: element (m, k) of A is `a[m * K + k]`. All levels must work for any M, N, K ≥ 1.
#
# In the slow kernel above, the 32 lanes of a warp compute 32 elements of one column of C, in 32 rows. So the warp
# touches 32 sectors when it loads from A, and 32 when it stores. Instead, let threads with consecutive `threadIdx.x`
# compute consecutive *columns* of C. For each k, all lanes of a warp then load the same element of A, and 32 contiguous
# elements of B. In the launcher `naive` (below), the x axis of the grid already counts columns.
#
# The check counts sectors per [request](../glossary.md#request). It allows 4 per store and, on average, 3 per load. (A
# load of A needs 1 sector and a load of B needs 4, so the average is 2.5.)
#
# <details><summary>Hint 1</summary>Start from the slow kernel, and swap x and y in the computation of <code>m</code>
# and <code>n</code>.</details>
# <details><summary>Hint 2</summary><code>n = blockIdx.x * blockDim.x + threadIdx.x</code>. Compute <code>m</code> in
# the same way from y.</details>
# <details><summary>Hint 3</summary>The grid is rounded up, so some threads have <code>m</code> ≥ M or <code>n</code> ≥
# N. They must not load or store.</details>

# %% cell="solution" id="matmul_naive"
# %%cuda
# // c = a @ b: a (M, K), b (K, N), c (M, N), row-major. One thread computes one element of c; x counts columns.
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

# %% cell="given" id="launchers"
from triton import cdiv

from labutils import ladder


def by_columns(a, b, c):
    M, K, N = *a.shape, b.shape[1]
    matmul_by_columns[(cdiv(M, 32), cdiv(N, 8)), (32, 8)](a, b, c, M, N, K)


def naive(a, b, c):
    M, K, N = *a.shape, b.shape[1]
    matmul_naive[(cdiv(N, 32), cdiv(M, 8)), (32, 8)](a, b, c, M, N, K)


def shared(a, b, c):
    M, K, N = *a.shape, b.shape[1]
    matmul_shared[(cdiv(N, 32), cdiv(M, 32)), (32, 32)](a, b, c, M, N, K)


def register_column(a, b, c):
    M, K, N = *a.shape, b.shape[1]
    kernel = matmul_register.module["matmul_register<64,64,8,1>"]
    kernel[(cdiv(N, 64), cdiv(M, 64)), 512](a, b, c, M, N, K)


def register(a, b, c):
    M, K, N = *a.shape, b.shape[1]
    if M <= 64 and N <= 64:  # one small tile is enough
        return register_column(a, b, c)
    matmul_register[(cdiv(N, 128), cdiv(M, 128)), 256](a, b, c, M, N, K)


lab.tiny("15_matmul_cuda/naive")
lab.coalescing(lambda lane: 4 * lane * 64, title="The slow kernel: 32 lanes read a[m][k] in 32 rows")

# %% cell="check" exercise="15_matmul_cuda/naive"
lab.check("15_matmul_cuda/naive")

# %% [markdown]
# Use this table when a check of this notebook fails. Causes that name tiles are for levels 2 and 3.
#
# | the check reports | a common cause |
# |---|---|
# | `missing-syncthreads` | there is no barrier after a tile is filled, or no barrier before it is refilled |
# | `uninitialized-shared`, `out-of-bounds` | elements past the edge are not replaced by 0 |
# | `missing-accumulation` | the sum is reset for each tile, or only one tile is summed |
# | `transposed`, `wrong-values` | rows and columns of a tile are swapped between its store and its load |
# | correct results, but points for a count are missing | too many loads, or too many sectors per load |
#
# ## Level 2: a block's tile in shared memory
#
# In level 1, the 8 warps of a block all load the same elements of B. Each load of A uses only 4 of the 32 bytes of a
# sector. Now a block of 32 × 32 threads copies a 32 × 32 tile of A and a 32 × 32 tile of B to shared memory. Each
# thread copies one element of A and one element of B. Then the thread adds 32 products to its sum. The next iteration
# does the same for the next two tiles along K. For elements past the edge of a matrix, store 0 to shared memory.
#
# An element of C needs K elements of A and K of B. In shared memory, each loaded element of A serves 32 columns of C,
# and each loaded element of B serves 32 rows. So K · (1/32 + 1/32) elements are loaded per element stored. The check
# allows at most K · (1/32 + 1/32) sectors loaded per sector stored. [Bank conflicts](../glossary.md#bank-conflict) cost
# points too.
#
# <details><summary>Hint 1</summary>You need two barriers per iteration: one after the tiles are filled, and one before
# they are refilled.</details>
# <details><summary>Hint 2</summary>Let <code>k0</code> be the tiles' first index along K. Thread (<code>tx</code>,
# <code>ty</code>) copies <code>a</code> at row <code>m</code>, column <code>k0 + tx</code>, and <code>b</code> at row
# <code>k0 + ty</code>, column <code>n</code>. Check the bounds of both matrices.</details>
# <details><summary>Hint 3</summary>No thread may return early: threads outside C still copy elements for others and
# must reach the barriers. Outside the matrices, a copy writes 0 to shared memory, and the store does nothing.</details>

# %% cell="solution" id="matmul_shared"
# %%cuda
# // Same product as matmul_naive. One block of 32 x 32 threads computes a tile of 32 x 32 elements.
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

# %% cell="check" exercise="15_matmul_cuda/shared"
lab.check("15_matmul_cuda/shared")

# %% [markdown]
# ## Level 3: a thread's tile in registers
#
# In level 2, a thread reads two numbers from shared memory per FMA, and these reads are the bottleneck. Now let a block
# compute `BM` × `BN` elements of C, and each thread of the block `TM` × `TN` elements. The tiles of A and B have a
# depth of 8 along K. For each k, a thread reads `TM` elements of A and `TN` elements of B into registers, and
# multiplies each element of A by each element of B.
#
# The kernel is a C++ [template](../glossary.md#template): the compiler makes one version for each choice of the
# constants `BM`, `BN`, `TM` and `TN`. With `<64, 64, 8, 1>` a thread computes a column of 8 elements. With `<128, 128,
# 8, 8>` it computes 8 × 8 elements. The check uses only `<128, 128, 8, 8>`. It allows K · (1/128 + 1/128) sectors
# loaded per sector stored, and 0.25 numbers read from shared memory per FMA.
#
# The code that fills the tiles is given. The given code computes `tx` and `ty` from the thread's index. Thread (`tx`,
# `ty`) computes the elements of the block's tile in rows `ty * TM + i` and columns `tx + j * (BN / TN)`, for all i <
# `TM` and j < `TN`. So for each j, consecutive threads read consecutive elements of B.
#
# <details><summary>Hint 1</summary>Registers have no addresses, so the compiler keeps <code>sum</code> in registers
# only if all its indices are constants. Unroll all loops over these indices with <code>#pragma unroll</code>.</details>
# <details><summary>Hint 2</summary>For each <code>k</code>, first read <code>TM</code> elements of A and
# <code>TN</code> of B into two small arrays. The double loop over <code>i</code> and <code>j</code> then reads only
# these arrays.</details>
# <details><summary>Hint 3</summary>Read <code>a_reg[i] = a_tile[ty * TM + i][k]</code> and <code>b_reg[j] =
# b_tile[k][tx + j * (BN / TN)]</code>.</details>
# %% cell="solution" id="matmul_register"
# %%cuda matmul_register<128,128,8,8>
# // Same product as matmul_naive. A block has (BM / TM) * (BN / TN) threads and computes BM x BN elements of c.
# // Each thread computes TM x TN elements.
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

# %% cell="check" exercise="15_matmul_cuda/register"
lab.check("15_matmul_cuda/register")

# %%
lab.claims("15_matmul_cuda")  # a two-minute quiz: predict each number, then compare
# For each version, this cell counts accesses to memory and to shared memory. On a GPU, it also measures the speed.
levels = {"by columns": by_columns, "naive": naive, "shared": shared, "register column": register_column}
ladder.show_counts(levels | {"register": register}, {})
ladder.show_rates(levels | {"register": register}, {})

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** From "shared" (level 2) to "register" (level 3), the number of loads from memory falls by a factor of 4,
# and the number of shared memory reads by a factor of 8. Which of these two changes makes the kernel faster? Support
# your answer with the numbers that the cell above prints for "register column" (`<64, 64, 8, 1>`).
#
# ### BEGIN SOLUTION
# Fewer shared memory reads did. In one cycle, an SM can do one FMA for each thread of four warps, but shared memory
# serves only one request of one warp. The compiler merges the loads of four elements of a row of A into one 16-byte
# load. So a warp of "shared" issues 8 requests for A and 32 for B per 32 FMAs. That is 1.25 requests per FMA, which
# limits "shared" to a fifth of the peak. "Register column" issues 8 + 4 = 12 requests per 32 FMAs, 0.375 per FMA. Its
# loads from memory fall only by half, and they were no bottleneck before: 32 columns shared each load. So most of its
# speedup comes from fewer shared memory reads.
# ### END SOLUTION

# %% [markdown]
# **Next.** `15_matmul_cuda_vector` makes loads wider and overlaps them with arithmetic. `15_matmul_tensor_cores` uses
# [tensor cores](../glossary.md#tensor-core).
#
# **Reading.** [How to Optimize a CUDA Matmul Kernel](https://siboehm.com/articles/22/CUDA-MMM) by Simon Boehm explains
# these levels, and measures each level on an A6000.

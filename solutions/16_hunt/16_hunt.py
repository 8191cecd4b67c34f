# %% [markdown]
# # Bug hunt: matmul in CUDA C++
#
# **You will** find one bug in each of three matmul kernels. First the kernels show only what they do: cases that fail,
# values, counts. You name line and cause, then you fix the kernel.
#
# **You will learn to**
# - follow a tile in shared memory from one iteration to the next;
# - compare the element that a thread computes with the one it stores;
# - follow two buffers through a loop.
#
# **You need** `15_matmul_cuda` and `15_matmul_cuda_vector`. About 50 minutes. You need no GPU.
#
# Do not run the checks of the last section before you have named the bugs: they name causes, too.

# %% cell="setup"

# %% cell="given" id="launchers"
from triton import cdiv


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


def in_vectors(a, b, c, launch):
    """Call `launch(a, b, c, M, N, K)` after appending zeros, so that all rows have a multiple of 4 elements."""
    a, b, out = lab.padded(a), lab.padded(b, rows=True), lab.padded(c, keep=False)
    launch(a, b, out, a.shape[0], b.shape[1], a.shape[1])
    if out is not c:
        c.copy_(out[:, : c.shape[1]])


def grid_of(c, tile=128):
    return cdiv(c.shape[1], tile), cdiv(c.shape[0], tile)


def double(a, b, c):
    in_vectors(a, b, c, matmul_double[grid_of(c), 256])


# %% [markdown]
# ## 1 Tiles in shared memory
#
# A block copies a tile of A and one of B, multiplies them, and goes on along K. For K up to 32 nobody has ever seen a
# wrong result.

# %% cell="hunt" id="shared_kernel" exercise="16_hunt/shared"
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

# %%
lab.evidence("16_hunt/shared")

# %% [markdown]
# ## 2 Tiles in registers
#
# Each thread computes TM × TN elements of c. For matrices of up to 64 × 64 elements, the launcher takes TN = 1.

# %% cell="hunt" id="register_kernel" exercise="16_hunt/register"
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

# %%
lab.evidence("16_hunt/register")

# %% [markdown]
# ## 3 Two buffers
#
# While the block multiplies the tiles in one buffer, the next tiles are in flight from global memory to the other one.
# The kernel was fast and right, until somebody made the names of the buffers shorter.

# %% cell="hunt" id="double_kernel" exercise="16_hunt/double"
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

# %%
lab.evidence("16_hunt/double")

# %% [markdown]
# ## 4 Name the bugs
#
# Fill in `bug`: for each hunt, the line of its kernel's cell where the bug is, and the cause. Lines count from 1 (View
# → Show Line Numbers); `%%cuda …` is line 1. If several lines can be changed to fix the bug, any of them is right.
#
# The causes to choose from:
#
# - missing barrier
# - load and store disagree
# - wrong buffer
# - missing guard
# - bank conflict
# - loop ends early
# - misaligned access
# - swapped sizes
#
# <details><summary>Hint 1</summary><code>shared</code>: a warp that has finished its products goes on to the next
# iteration. What does it do first?</details>
# <details><summary>Hint 2</summary><code>register</code>: which column of c does a thread compute with j = 1, and to
# which column does it store it?</details>
# <details><summary>Hint 3</summary><code>double</code>: <code>now</code> is 0 in the first iteration. Which buffer is
# read, and which one is written?</details>


# %% cell="solution" id="bug"
def bug(hunt):
    """Return the line and the cause of a hunt's bug, such as {"line": 12, "cause": "…"}.

    hunt  "shared" or "register" or "double"
    """
    ### BEGIN SOLUTION
    found = {
        "shared": {"line": 9, "cause": "missing barrier"},
        "register": {"line": 28, "cause": "load and store disagree"},
        "double": {"line": 64, "cause": "wrong buffer"},
    }
    return found[hunt]
    ### END SOLUTION


# %% cell="check" exercise="16_hunt/bug"
lab.check("16_hunt/bug")

# %% [markdown]
# ## 5 Fix them
#
# Change the kernels in their cells above, run the cells, and check. A fix needs few characters or lines; the rest of
# the kernel is right.

# %% cell="check" exercise="16_hunt/shared"
lab.check("16_hunt/shared")

# %% cell="check" exercise="16_hunt/register"
lab.check("16_hunt/register")

# %% cell="check" exercise="16_hunt/double"
lab.check("16_hunt/double")

# %% [markdown]
# **Next.** `16_matmul_hopper` lets the hardware copy tiles; there, the waits are the hard part.
#
# **In practice** keep each bug that you fix as a test: the smallest case that showed it.

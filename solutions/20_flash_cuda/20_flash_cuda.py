# %% [markdown]
# # Write attention in CUDA C++, down to the lanes
#
# **You will** write the forward pass of unit 17 twice more: with plain arithmetic and shuffles, then with the tensor
# cores' own instructions.
#
# **You will learn to**
# - keep a softmax in a warp: maxima and sums by shuffles, weights passed from lane to lane;
# - say which lane of a warp holds which element of a matrix instruction, and use it;
# - turn the result of one product into the operand of the next without leaving registers;
# - find out what the tensor cores wait for: here shared memory.
#
# **You need** `15_matmul_cuda` and `17_flash_attention`.
#
# About 150 minutes. Works without a GPU; only times need one.

# %% cell="setup"

# %% [markdown]
# ## Predict: who holds what?
#
# `wmma` hides how a matrix lies over the lanes of a warp. Softmax needs rows, so here we must know. The instruction
# `mma.sync.m16n8k16` computes d += a·b, with d 16 × 8. Lane 4·r + c holds four elements of d, numbered 0 to 3:
# numbers 0 and 1 are in row r, columns 2·c and 2·c + 1; numbers 2 and 3 are below these, 8 rows further down.
#
# Which row and which column has number `i` of lane `lane`?
#
# And a warp that holds `rows` queries reads each key and each value of a tile from shared memory once. How many FLOPs
# does it do for each byte that it reads?


# %% cell="solution" id="layout"
def row_of(lane, i):
    ### BEGIN SOLUTION
    return lane // 4 + 8 * (i // 2)
    ### END SOLUTION


def column_of(lane, i):
    ### BEGIN SOLUTION
    return lane % 4 * 2 + i % 2
    ### END SOLUTION


def shared_intensity(rows, itemsize):
    """FLOPs of both products for each byte of keys and values from shared memory."""
    ### BEGIN SOLUTION
    return 4 * rows / (2 * itemsize)  # for each element of a key and of its value
    ### END SOLUTION


# %% cell="check" exercise="20_flash_cuda/row_of"
lab.check("20_flash_cuda/row_of")

# %% cell="check" exercise="20_flash_cuda/column_of"
lab.check("20_flash_cuda/column_of")

# %% cell="check" exercise="20_flash_cuda/shared_intensity"
lab.check("20_flash_cuda/shared_intensity")

# %% [markdown]
# An SM reads 128 bytes of shared memory in a clock, and with `mma.sync` does 2000 to 2500 FLOPs in it on Hopper. So a
# warp with 16 queries, at 16 FLOPs a byte, would wait for shared memory; with 32 it need not.
#
# The picture shows what a lane holds of a, b and d. Note that d lies as a does: 8 columns of d are half of a.

# %%
from triton import cdiv

from labutils import fragments

fragments.explorer()

# %% [markdown]
# ## Level 1: lanes are keys, then lanes are columns
#
# | argument | shape | meaning |
# |---|---|---|
# | `q`, `out` | (H, M, D) | fp16, rows one after the other; D is 64 or 128 |
# | `k`, `v` | (H, N, D) | fp16 |
# | `lse` | (H, M) | fp32: natural log Σ exp(q·k / √D) |
# | `scale` | a number | log₂ e / √D: as in unit 17, everything is in powers of two |
#
# Four warps share tiles of 32 keys and values. A warp has 8 queries. First lane j computes the scores of key j with all
# 8; the maximum of a row of scores is then a maximum over lanes. After the exponential the roles change: lane j owns
# columns j, j + 32, … of the output, and needs the weights of *all* keys: each is passed round by a shuffle.
#
# Tiles are filled for you, with zeros past the end. You write what happens between the two barriers.
#
# <details><summary>Hint 1</summary>Scores: for d in steps of 4 read one <code>float4</code> of the lane's own key and,
# for each of the 8 queries, one of <code>q_tile[8 * warp + r]</code>, which all lanes share.</details>
# <details><summary>Hint 2</summary>A lane whose key does not exist (start + lane ≥ N) has score -INFINITY. Maximum of
# the row: five times <code>fmaxf(x, __shfl_xor_sync(~0u, x, step))</code>, step 16, 8, 4, 2, 1. The sum l may stay
# apart in each lane: it is added up after the last tile.</details>
# <details><summary>Hint 3</summary>Values: for each key j and query r <code>w = __shfl_sync(~0u, p[r], j)</code>, then
# acc[r][e] += w · v_tile[j][lane + 32 · e].</details>

# %% cell="solution" id="flash_scalar"
# %%cuda flash_scalar<64>
# #include <cuda_fp16.h>
#
# // out = softmax(q k^T / sqrt(D)) v and lse for one head, blockIdx.y. A block of 4 warps computes 32 queries.
# template <int D>
# __global__ void __launch_bounds__(128)
# flash_scalar(const half *q, const half *k, const half *v, half *out, float *lse, int M, int N, float scale) {
#     constexpr int ROWS = 8, EACH = D / 32;
#     __shared__ __align__(16) float q_tile[4 * ROWS][D], k_tile[32][D + 4];
#     __shared__ half v_tile[32][D];
#     int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * 4 * ROWS;
#     size_t head = blockIdx.y;
#     q += head * M * D, out += head * M * D, lse += head * M, k += head * N * D, v += head * N * D;
#     for (int i = threadIdx.x; i < 4 * ROWS * D; i += 128)
#         q_tile[i / D][i % D] = first + i / D < M ? __half2float(q[first * D + i]) : 0.0f;
#     float m[ROWS], l[ROWS] = {}, acc[ROWS][EACH] = {};
#     for (int r = 0; r < ROWS; r++) m[r] = -INFINITY;
#     for (int start = 0; start < N; start += 32) {
#         for (int i = threadIdx.x; i < 32 * D; i += 128) {
#             bool inside = start + i / D < N;
#             k_tile[i / D][i % D] = inside ? __half2float(k[start * D + i]) : 0.0f;
#             v_tile[i / D][i % D] = inside ? v[start * D + i] : __float2half(0.0f);
#         }
#         __syncthreads();
#         // ### BEGIN SOLUTION
#         float p[ROWS] = {};
#         for (int d = 0; d < D; d += 4) {
#             float4 key = *reinterpret_cast<float4 *>(&k_tile[lane][d]);
#             #pragma unroll
#             for (int r = 0; r < ROWS; r++) {
#                 float4 query = *reinterpret_cast<float4 *>(&q_tile[warp * ROWS + r][d]);
#                 p[r] += query.x * key.x + query.y * key.y + query.z * key.z + query.w * key.w;
#             }
#         }
#         #pragma unroll
#         for (int r = 0; r < ROWS; r++) {
#             float s = start + lane < N ? p[r] * scale : -INFINITY, largest = s;
#             for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
#             float m_new = fmaxf(m[r], largest), factor = exp2f(m[r] - m_new);
#             p[r] = exp2f(s - m_new);
#             l[r] = l[r] * factor + p[r];
#             m[r] = m_new;
#             for (int e = 0; e < EACH; e++) acc[r][e] *= factor;
#         }
#         for (int j = 0; j < 32; j++) {
#             float value[EACH];
#             #pragma unroll
#             for (int e = 0; e < EACH; e++) value[e] = __half2float(v_tile[j][lane + 32 * e]);
#             #pragma unroll
#             for (int r = 0; r < ROWS; r++) {
#                 float w = __shfl_sync(~0u, p[r], j);
#                 for (int e = 0; e < EACH; e++) acc[r][e] += w * value[e];
#             }
#         }
#         // ### END SOLUTION
#         __syncthreads();
#     }
#     for (int r = 0; r < ROWS; r++) {
#         int row = first + warp * ROWS + r;
#         for (int step = 16; step > 0; step /= 2) l[r] += __shfl_xor_sync(~0u, l[r], step);
#         if (row >= M) continue;
#         for (int e = 0; e < EACH; e++) out[row * D + lane + 32 * e] = __float2half(acc[r][e] / l[r]);
#         if (lane == 0) lse[row] = (m[r] + log2f(l[r])) * 0.6931471805599453f;
#     }
# }


# %% cell="given" id="scalar"
LOG2_E = 1.4426950408889634


def scalar(q, k, v, out, lse):
    (H, M, D), N = q.shape, k.shape[1]
    kernel = flash_scalar if D == 64 else flash_scalar.module[f"flash_scalar<{D}>"]
    kernel[(cdiv(M, 32), H), 128](q, k, v, out, lse, M, N, LOG2_E * D**-0.5)


# %% cell="check" exercise="20_flash_cuda/scalar"
lab.check("20_flash_cuda/scalar")

# %% [markdown]
# When a check of this unit fails:
#
# | what it says | a common cause |
# |---|---|
# | `overflow` | exp2 of a score without the maximum; -INFINITY − -INFINITY |
# | `padded-lanes` | keys past the end have score 0 in place of -INFINITY |
# | `wrong-formula`, rescaled | acc or l without the factor exp2(m − m_new) |
# | `wrong-values` | the maximum of a few lanes, not of the row; rows r and r + 8 mixed up |
# | `shuffle-mask`, `deadlock` | a shuffle inside a branch that not all lanes take |
# | points for counts are missing | the line above says what is read more often, or with more conflicts, than needed |
#
# ## Level 2: tensor cores
#
# Now a warp has TILES pieces of 16 queries, and everything is as your `row_of` and `column_of` say. In `lab/mma.cuh`:
#
# | function | does |
# |---|---|
# | `ldmatrix_x4(m, row)` | four 8 × 8 matrices to `unsigned m[4]`; lane 8·i + r has the address of row r of matrix i |
# | `ldmatrix_x4_trans(m, row)` | the same, each matrix transposed |
# | `mma_m16n8k16(d, a, b0, b1)` | d += a·b for `float d[4]`, `unsigned a[4]` and two registers of b |
# | `pack(x, y)` | two floats as two halves in one `unsigned` |
# | `fast_exp2(x)` | one instruction |
#
# They need Ampere or later to be fast. You write three functions.
#
# **`scores`**: s = q kᵀ, `s[t][n]` for piece t and keys 8·n to 8·n + 7. Matrices of a, in this order: rows 0-7 and 8-15
# of columns 0-7, then both of columns 8-15. b is kᵀ, 16 deep (d) and 8 wide (keys), and b0 holds rows 2·c, 2·c + 1 of
# column r: that is how rows of k lie, so plain `ldmatrix`. One x4 brings b0 and b1 of 16 keys.
#
# **`soften`**: s becomes p, and m, l, o are brought up to date. A row of scores lies over the four lanes 4·r to
# 4·r + 3, so two shuffles give its maximum. `m[t][0]` is of row r, `m[t][1]` of row r + 8, and so on.
#
# **`weigh`**: o += p v. p in halves is an operand as it lies: keys 16·k to 16·k + 15 of p are `s[t][2k]` and
# `s[t][2k + 1]`. b is v, 16 deep (keys) and 8 wide: rows of v run along d, so `ldmatrix_x4_trans`.
#
# <details><summary>Hint 1</summary>Addresses: of q, row <code>lane % 16</code>, column <code>lane / 16 * 8</code>; of v
# the same. Of k, key <code>lane / 16 * 8 + lane % 8</code>, column <code>lane / 8 % 2 * 8</code>: m[0], m[1] are b0, b1
# of the first 8 keys, m[2], m[3] of the next.</details>
# <details><summary>Hint 2</summary>For each t and half h: the maximum over n of s[t][n][2h] and s[t][n][2h + 1], then
# <code>__shfl_xor_sync(~0u, x, 1)</code> and 2. Times <code>scale</code> it is the candidate for m. p is
# fast_exp2(s · scale − m). The sum l stays apart in the four lanes until the end.</details>
# <details><summary>Hint 3</summary>a of p: pack(s[t][2k][0], s[t][2k][1]), pack(s[t][2k][2], s[t][2k][3]), and the
# same of s[t][2k + 1]. Read each piece of k and v once and use it for all t.</details>

# %% cell="solution" id="flash_tensor"
# %%cuda flash_tensor<64,2,2,32>
# #include <cuda_fp16.h>
# #include <cuda_pipeline.h>
# #include <lab/mma.cuh>
#
# // tile[i][j] = x[row + i][j], 0 past the end. Rows of the tile are D + 8 long, for the banks. Only starts the copies.
# template <int ROWS, int D, int THREADS>
# __device__ void copy_rows(half *tile, const half *x, int row, int rows) {
#     #pragma unroll
#     for (int p = 0; p < ROWS * D / 8 / THREADS; p++) {
#         int i = threadIdx.x + p * THREADS, r = i / (D / 8), c = i % (D / 8) * 8;
#         bool inside = row + r < rows;
#         copy_async(tile + r * (D + 8) + c, x + (row + r) * D + c, inside);
#     }
# }
#
# // s = q k^T: s (16 TILES x BLOCK_N) in pieces of 16 x 8, q_tile (16 TILES x D), k_tile (BLOCK_N x D).
# template <int D, int TILES, int BLOCK_N>
# __device__ void scores(float (&s)[TILES][BLOCK_N / 8][4], const half *q_tile, const half *k_tile) {
#     constexpr int PITCH = D + 8;
#     int lane = threadIdx.x % 32;
#     #pragma unroll
#     for (int t = 0; t < TILES; t++)
#         #pragma unroll
#         for (int n = 0; n < BLOCK_N / 8; n++) s[t][n][0] = s[t][n][1] = s[t][n][2] = s[t][n][3] = 0.0f;
#     // ### BEGIN SOLUTION
#     const half *q_row = q_tile + lane % 16 * PITCH + lane / 16 * 8;
#     const half *k_row = k_tile + (lane / 16 * 8 + lane % 8) * PITCH + lane / 8 % 2 * 8;
#     #pragma unroll
#     for (int d = 0; d < D; d += 16) {
#         unsigned a[TILES][4];
#         #pragma unroll
#         for (int t = 0; t < TILES; t++) ldmatrix_x4(a[t], q_row + 16 * t * PITCH + d);
#         #pragma unroll
#         for (int n = 0; n < BLOCK_N / 8; n += 2) {
#             unsigned b[4];
#             ldmatrix_x4(b, k_row + 8 * n * PITCH + d);
#             #pragma unroll
#             for (int t = 0; t < TILES; t++) {
#                 mma_m16n8k16(s[t][n], a[t], b[0], b[1]);
#                 mma_m16n8k16(s[t][n + 1], a[t], b[2], b[3]);
#             }
#         }
#     }
#     // ### END SOLUTION
# }
#
# // s becomes p = exp2(s scale - m) with the new maxima m; l and o are rescaled, and l takes the lane's own p.
# template <int D, int TILES, int BLOCK_N>
# __device__ void soften(float (&s)[TILES][BLOCK_N / 8][4], float (&m)[TILES][2], float (&l)[TILES][2],
#                        float (&o)[TILES][D / 8][4], float scale) {
#     // ### BEGIN SOLUTION
#     #pragma unroll
#     for (int t = 0; t < TILES; t++)
#         #pragma unroll
#         for (int h = 0; h < 2; h++) {
#             float largest = -INFINITY;
#             #pragma unroll
#             for (int n = 0; n < BLOCK_N / 8; n++) largest = fmaxf(largest, fmaxf(s[t][n][2 * h], s[t][n][2 * h + 1]));
#             largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
#             largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
#             float m_new = fmaxf(m[t][h], largest * scale), factor = fast_exp2(m[t][h] - m_new), sum = 0.0f;
#             #pragma unroll
#             for (int n = 0; n < BLOCK_N / 8; n++)
#                 #pragma unroll
#                 for (int i = 2 * h; i < 2 * h + 2; i++) sum += s[t][n][i] = fast_exp2(s[t][n][i] * scale - m_new);
#             m[t][h] = m_new;
#             l[t][h] = l[t][h] * factor + sum;
#             #pragma unroll
#             for (int n = 0; n < D / 8; n++) o[t][n][2 * h] *= factor, o[t][n][2 * h + 1] *= factor;
#         }
#     // ### END SOLUTION
# }
#
# // o += p v: p (16 TILES x BLOCK_N) in pieces, v_tile (BLOCK_N x D), o (16 TILES x D) in pieces of 16 x 8.
# template <int D, int TILES, int BLOCK_N>
# __device__ void weigh(float (&o)[TILES][D / 8][4], float (&p)[TILES][BLOCK_N / 8][4], const half *v_tile) {
#     constexpr int PITCH = D + 8;
#     int lane = threadIdx.x % 32;
#     // ### BEGIN SOLUTION
#     const half *v_row = v_tile + lane % 16 * PITCH + lane / 16 * 8;
#     #pragma unroll
#     for (int k = 0; k < BLOCK_N / 16; k++) {
#         unsigned a[TILES][4];
#         #pragma unroll
#         for (int t = 0; t < TILES; t++)
#             #pragma unroll
#             for (int i = 0; i < 4; i++) {
#                 float *two = &p[t][2 * k + i / 2][i % 2 * 2];
#                 a[t][i] = pack(two[0], two[1]);
#             }
#         #pragma unroll
#         for (int n = 0; n < D / 8; n += 2) {
#             unsigned b[4];
#             ldmatrix_x4_trans(b, v_row + 16 * k * PITCH + 8 * n);
#             #pragma unroll
#             for (int t = 0; t < TILES; t++) {
#                 mma_m16n8k16(o[t][n], a[t], b[0], b[1]);
#                 mma_m16n8k16(o[t][n + 1], a[t], b[2], b[3]);
#             }
#         }
#     }
#     // ### END SOLUTION
# }
#
# // As flash_scalar. WARPS warps with 16 TILES queries each; two buffers of BLOCK_N keys and values.
# template <int D, int WARPS, int TILES, int BLOCK_N>
# __global__ void __launch_bounds__(32 * WARPS)
# flash_tensor(const half *q, const half *k, const half *v, half *out, float *lse, int M, int N, float scale) {
#     constexpr int PITCH = D + 8, BLOCK_M = 16 * TILES * WARPS, THREADS = 32 * WARPS, TILE = BLOCK_N * PITCH;
#     extern __shared__ __align__(128) half memory[];
#     half *q_tile = memory, *kv_tiles = memory + BLOCK_M * PITCH;
#     int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * BLOCK_M;
#     size_t head = blockIdx.y;
#     q += head * M * D, out += head * M * D, lse += head * M, k += head * N * D, v += head * N * D;
#     auto fetch = [&](int start, int buffer) {
#         copy_rows<BLOCK_N, D, THREADS>(kv_tiles + 2 * buffer * TILE, k, start, N);
#         copy_rows<BLOCK_N, D, THREADS>(kv_tiles + (2 * buffer + 1) * TILE, v, start, N);
#         __pipeline_commit();
#     };
#     copy_rows<BLOCK_M, D, THREADS>(q_tile, q, first, M);
#     fetch(0, 0);
#     float m[TILES][2], l[TILES][2] = {}, o[TILES][D / 8][4] = {}, s[TILES][BLOCK_N / 8][4];
#     for (int t = 0; t < TILES; t++) m[t][0] = m[t][1] = -INFINITY;
#     for (int start = 0, now = 0; start < N; start += BLOCK_N, now = 1 - now) {
#         __pipeline_wait_prior(0);
#         __syncthreads();  // tile `now` is there, and nobody reads the other any more
#         if (start + BLOCK_N < N) fetch(start + BLOCK_N, 1 - now);
#         const half *k_tile = kv_tiles + 2 * now * TILE, *v_tile = k_tile + TILE;
#         scores<D, TILES, BLOCK_N>(s, q_tile + 16 * TILES * warp * PITCH, k_tile);
#         if (start + BLOCK_N > N) {  // keys that do not exist
#             #pragma unroll
#             for (int t = 0; t < TILES; t++)
#                 #pragma unroll
#                 for (int n = 0; n < BLOCK_N / 8; n++)
#                     #pragma unroll
#                     for (int i = 0; i < 4; i++)
#                         if (start + 8 * n + lane % 4 * 2 + i % 2 >= N) s[t][n][i] = -INFINITY;
#         }
#         soften<D, TILES, BLOCK_N>(s, m, l, o, scale);
#         weigh<D, TILES, BLOCK_N>(o, s, v_tile);
#     }
#     #pragma unroll
#     for (int t = 0; t < TILES; t++)
#         #pragma unroll
#         for (int h = 0; h < 2; h++) {
#             int row = first + 16 * (TILES * warp + t) + 8 * h + lane / 4;
#             float sum = l[t][h];
#             sum += __shfl_xor_sync(~0u, sum, 1);
#             sum += __shfl_xor_sync(~0u, sum, 2);
#             if (row >= M) continue;
#             float inverse = 1.0f / sum;
#             unsigned *out_row = reinterpret_cast<unsigned *>(out + row * D) + lane % 4;
#             #pragma unroll
#             for (int n = 0; n < D / 8; n++)
#                 out_row[4 * n] = pack(o[t][n][2 * h] * inverse, o[t][n][2 * h + 1] * inverse);
#             if (lane % 4 == 0) lse[row] = (m[t][h] + log2f(sum)) * 0.6931471805599453f;
#         }
# }


# %% cell="given" id="tensor"
def tensor_config(M, N):
    """WARPS, TILES, BLOCK_N"""
    return (2, 2, 32) if M * N < 2**16 else (4, 2, 64)


def tensor(q, k, v, out, lse, config=None):
    (H, M, D), N = q.shape, k.shape[1]
    warps, tiles, block_n = config = config or tensor_config(M, N)
    kernel = flash_tensor
    if (D, *config) != (64, 2, 2, 32):
        kernel = kernel.module[f"flash_tensor<{D},{warps},{tiles},{block_n}>"]
    block_m, shared = 16 * tiles * warps, 2 * (16 * tiles * warps + 4 * block_n) * (D + 8)
    # copies of 16 bytes need arrays that begin at a multiple of 16
    q, k, v, o = lab.aligned(q), lab.aligned(k), lab.aligned(v), lab.aligned(out, keep=False)
    kernel[(cdiv(M, block_m), H), 32 * warps, shared](q, k, v, o, lse, M, N, LOG2_E * D**-0.5)
    if o is not out:
        out.copy_(o)


# %% cell="check" exercise="20_flash_cuda/tensor"
lab.check("20_flash_cuda/tensor")

# %%
# Beside each other: what both read, counted; and their speed beside PyTorch's two backends.
fragments.counts({"scalar": scalar, "tensor": tensor})
fragments.speeds({"scalar": scalar, "tensor": tensor})

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** The kernel is launched with 4 warps of 32 queries each, which need about 250 registers a thread. With 8
# warps of 16 queries each half of those would do. Why are 32 a warp better, although fewer warps run on an SM? Use
# `shared_intensity`.
#
# ### BEGIN SOLUTION
# All warps read all keys and values of a tile. With 16 queries a warp does 16 FLOPs for each byte, and an SM's 128
# bytes a clock allow 2048 FLOPs: as many as the tensor cores can do, so they wait. With 32 queries each byte serves
# twice as many, and shared memory is busy half of the time. Latency is hidden by independent products within the warp:
# 8 of a row of pieces and 2 of a column are under way together, and two blocks share an SM.
# ### END SOLUTION

# %% [markdown]
# **What others do**, beyond what unit 17 says of versions 2, 3 and 4:
#
# | | yours | FlashAttention-2 | FlashAttention-3 | FlashAttention-4 |
# |---|---|---|---|---|
# | products | mma.sync | mma.sync | wgmma: Q, K, V from shared memory, P from registers | tcgen05 |
# | sums are in | registers | registers | registers | tensor memory |
# | copies by | all warps, cp.async | all warps, cp.async | one warp, TMA | one warp, TMA |
# | softmax overlaps with | other warps' products | other warps' products | the other group's, by plan | both, by plan |
# | shared memory | longer rows | XOR swizzle | XOR swizzle, by the TMA | the same |
#
# **Next levels.** A causal mask in two loops, as in unit 17. Keys fetched while the values of the tile before are still
# used: one buffer each is then enough. Longer rows replaced by the swizzle of unit 09. bf16: `mma_m16n8k16` and `pack`
# take it as a template argument. `16_matmul_hopper` has the instructions for version 3.
#
# **In practice** you would start from CUTLASS's CuTe, whose layouts say in one place what you worked out by lane, or
# from Triton, which made the same instructions in unit 17.
#
# **Reading.** [PTX: mma.m16n8k16](
# https://docs.nvidia.com/cuda/parallel-thread-execution/#warp-level-matrix-fragment-mma-16816-float): the pictures of
# who holds what. [FlashAttention-2](https://arxiv.org/abs/2307.08691), section 3.3: how warps share the work.
# [Dissecting Hopper](https://arxiv.org/abs/2402.13499): what mma.sync reaches beside wgmma.

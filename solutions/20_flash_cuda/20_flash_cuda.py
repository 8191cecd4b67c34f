# %% [markdown]
# # FlashAttention in CUDA C++
#
# **You will** write two CUDA kernels; each computes the forward pass of unit 17. The first uses scalar arithmetic and
# [warp](../glossary.md#warp) [shuffles](../glossary.md#shuffle). The second uses [tensor
# core](../glossary.md#tensor-core) instructions.
#
# **You will learn to**
#
# - compute a softmax within a warp with shuffles, which exchange values between [lanes](../glossary.md#lane);
# - find which lane holds which matrix element in a tensor core instruction;
# - keep the result of one product in [registers](../glossary.md#register), and use it there as an operand of the next
#   product;
# - explain when tensor cores wait for [shared memory](../glossary.md#shared-memory).
#
# **You need** `15_matmul_cuda`, `15_matmul_tensor_cores` and `17_flash_attention`.
#
# About 150 minutes. You need a GPU only to measure times.
#
# ## Predict: which lane holds what?
#
# The functions of [wmma](../glossary.md#wmma) hide which lane holds which element of a
# [fragment](../glossary.md#fragment). To compute the softmax of a row, you must know which lanes hold the elements of
# this row. For the instruction [mma.sync](../glossary.md#mmasync), NVIDIA documents which lane holds which element.
# With the shape m16n8k16, mma.sync computes d += a·b, where a is 16 × 16, b is 16 × 8 and d is 16 × 8. Each lane holds
# four elements of d, numbered 0 to 3. In lane `4 * r + c` with `c` < 4, elements 0 and 1 are in row `r`, columns `2 *
# c` and `2 * c + 1`. Elements 2 and 3 are in the same columns, 8 rows below.
#
# 1. `row_of` and `column_of`: in which row, and in which column of d, is element `i` of lane `lane`?
# 2. `shared_intensity`: a warp that holds `rows` queries reads each key and value of a [tile](../glossary.md#tile) from
#    shared memory once. How many FLOPs does the warp do per byte that it reads? Count the FLOPs of q kᵀ and p v
#    together. (p holds the softmax weights.) An element has `itemsize` bytes.

# %% cell="setup"

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
    """Return FLOPs / bytes: FLOPs of q kᵀ and p v, bytes of keys and values that the warp reads from shared memory."""
    ### BEGIN SOLUTION
    return 4 * rows / (2 * itemsize)  # per element of a key and of its value
    ### END SOLUTION


# %% cell="check" exercise="20_flash_cuda/row_of"
lab.check("20_flash_cuda/row_of")

# %% cell="check" exercise="20_flash_cuda/column_of"
lab.check("20_flash_cuda/column_of")

# %% cell="check" exercise="20_flash_cuda/shared_intensity"
lab.check("20_flash_cuda/shared_intensity")

# %% [markdown]
# An [SM](../glossary.md#sm) reads {claim: shared_bytes_per_cycle} bytes of shared memory per
# [cycle](../glossary.md#cycle). With `mma.sync` on Hopper (sm_90), an SM does {claim: sm90_mma_sync_flops} FLOPs per
# cycle. In fp16, a warp with 16 queries does 16 FLOPs per byte. So shared memory delivers bytes for at most 16 · 128 =
# 2048 FLOPs per cycle. Tensor cores that can do up to 2500 FLOPs per cycle must wait for these bytes. With 32 queries
# per warp, the same bytes are enough for twice as many FLOPs.
#
# The next cell draws which elements of a, b and d a lane holds. Compare the picture of a with two copies of the picture
# of d, put side by side: each lane holds elements at the same positions in both.

# %% cell="given" id="launchers"
from triton import cdiv

from labutils import fragments

LOG2_E = 1.4426950408889634


def scalar(q, k, v, out, lse):
    (H, M, D), N = q.shape, k.shape[1]
    kernel = flash_scalar if D == 64 else flash_scalar.module[f"flash_scalar<{D}>"]
    kernel[(cdiv(M, 32), H), 128](q, k, v, out, lse, M, N, LOG2_E * D**-0.5)


def tensor_config(M, N):
    """Return the template arguments WARPS, TILES and BLOCK_N."""
    return (2, 2, 32) if M * N < 2**16 else (4, 2, 64)


def tensor(q, k, v, out, lse, config=None):
    (H, M, D), N = q.shape, k.shape[1]
    warps, tiles, block_n = config = config or tensor_config(M, N)
    kernel = flash_tensor
    if (D, *config) != (64, 2, 2, 32):
        kernel = kernel.module[f"flash_tensor<{D},{warps},{tiles},{block_n}>"]
    block_m, shared = 16 * tiles * warps, 2 * (16 * tiles * warps + 4 * block_n) * (D + 8)
    # 16-byte copies need 16-byte aligned arrays
    q, k, v, o = lab.aligned(q), lab.aligned(k), lab.aligned(v), lab.aligned(out, keep=False)
    kernel[(cdiv(M, block_m), H), 32 * warps, shared](q, k, v, o, lse, M, N, LOG2_E * D**-0.5)
    if o is not out:
        out.copy_(o)


fragments.explorer()

# %% [markdown]
# ## Level 1: one key per lane, then columns of the output
#
# | argument | shape | meaning |
# |---|---|---|
# | `q`, `out` | (H, M, D) | [fp16](../glossary.md#fp16), contiguous; D is 64 or 128 |
# | `k`, `v` | (H, N, D) | fp16, contiguous |
# | `lse` | (H, M) | fp32: log Σ exp(q·k / √D), natural logarithm |
# | `scale` | a number | log₂ e / √D, because the kernel uses exp2 instead of exp, as in unit 17 |
#
# The four warps of a block read the same tiles of 32 keys and values. Each warp has 8 queries of its own. First, lane
# `j` computes the scores of key `j` with all 8 queries. So the scores of one query are in 32 lanes, and their maximum
# is a maximum over lanes. After the exponential, lane `j` has another task: it computes columns `j`, `j + 32`, … of the
# output. For these columns, the lane needs the weights of *all* keys, so a shuffle copies each weight to all lanes.
#
# The given code loads the tiles, with zeros for rows past the end. Write the code between the two
# [barriers](../glossary.md#barrier) (the calls of `__syncthreads`).
#
# <details><summary>Hint 1</summary>For the scores, loop over <code>d</code> in steps of 4, and read one
# <code>float4</code> of the lane's own key. For each of the 8 queries <code>r</code>, read one <code>float4</code> of
# <code>q_tile[8 * warp + r]</code>; all lanes read the same address. <code>*reinterpret_cast&lt;float4
# *&gt;(&amp;x)</code> reads <code>x</code> and the three floats after it.</details>
# <details><summary>Hint 2</summary>If a lane's key is past the end (start + lane ≥ N), its score is -INFINITY. For a
# query's maximum over all lanes, compute <code>x = fmaxf(x, __shfl_xor_sync(~0u, x, step))</code> five times, with
# <code>step</code> = 16, 8, 4, 2, 1. Let each lane sum only its own weights in l: the given code adds the lanes' sums
# after the last tile.</details>
# <details><summary>Hint 3</summary>For the output, loop over all keys <code>j</code> and queries <code>r</code>. Get
# the weight by <code>w = __shfl_sync(~0u, p[r], j)</code>, and add <code>w * v_tile[j][lane + 32 * e]</code> to
# <code>acc[r][e]</code>.</details>

# %% cell="solution" id="flash_scalar"
# %%cuda flash_scalar<64>
# #include <cuda_fp16.h>
#
# // Computes out = softmax(q k^T / sqrt(D)) v and lse for 32 queries of head blockIdx.y, with a block of 4 warps.
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

# %% cell="check" exercise="20_flash_cuda/scalar"
lab.check("20_flash_cuda/scalar")

# %% [markdown]
# Use this table when a check of level 1 or 2 fails:
#
# | diagnosis | common cause |
# |---|---|
# | `overflow` | the maximum is not subtracted before exp2; or -INFINITY is subtracted from -INFINITY |
# | `padded-lanes` | keys past the end have score 0 instead of -INFINITY |
# | `wrong-formula`: "not rescaled" | acc or l is not multiplied by exp2(m − m_new) |
# | `wrong-values` | the maximum is taken over only some lanes of a row; or (level 2) rows r and r + 8 are swapped |
# | `shuffle-mask`, `deadlock` | a shuffle is inside a branch that not all lanes take |
# | a count marked ✗ | shared memory is read too often, or with bank conflicts |
#
# ## Level 2: tensor cores
#
# Now each warp processes `TILES` groups of 16 queries. The scores of 16 queries and 8 keys form a 16 × 8 *piece*;
# `row_of` and `column_of` describe its layout. The header `lab/mma.cuh` has these functions:
#
# | function | what it does |
# |---|---|
# | `ldmatrix_x4(x, row)` | loads four 8 × 8 matrices into `x`; lane 8·i + r passes the address of row r of matrix i |
# | `ldmatrix_x4_trans(x, row)` | loads four 8 × 8 matrices in the same way, and transposes each of them |
# | `mma_m16n8k16(d, a, b0, b1)` | computes d += a·b for `float d[4]`, `unsigned a[4]`, and the two registers of b |
# | `pack(x, y)` | converts two floats to halves, and returns both in one `unsigned` |
# | `fast_exp2(x)` | returns an approximate exp2, with one instruction |
#
# After [ldmatrix](../glossary.md#ldmatrix), `unsigned x[i]` of lane 4·r + c holds elements 2·c and 2·c + 1 of row r of
# matrix i. Write three functions.
#
# **`scores`** computes s = q kᵀ. `s[t][n]` is the piece for query group `t` and keys `8 * n` to `8 * n + 7`. Operand a
# is a part of q. It consists of four 8 × 8 matrices, in this order:
#
# 1. rows 0 to 7, columns 0 to 7;
# 2. rows 8 to 15, columns 0 to 7;
# 3. rows 0 to 7, columns 8 to 15;
# 4. rows 8 to 15, columns 8 to 15.
#
# Operand b is a part of kᵀ: its 8 columns are keys, and its 16 rows are elements of these keys. In lane 4·r + c, b0
# holds rows 2·c and 2·c + 1 of column r, and b1 holds rows 2·c + 8 and 2·c + 9. So each register holds two adjacent
# elements of a key. They are contiguous in k, so use `ldmatrix_x4` without transposing. One call loads b0 and b1 for 16
# keys.
#
# **`soften`** replaces s by the weights p, and updates the maxima m, the sums l and the output accumulators o. The four
# lanes 4·r to 4·r + 3 hold rows r and r + 8 of a piece, so the maximum of a row over these four lanes needs only two
# shuffles. `m[t][0]` and `l[t][0]` belong to row r, and `m[t][1]` and `l[t][1]` to row r + 8.
#
# **`weigh`** computes o += p v. Its argument `p` is the array that `soften` has changed from scores to weights.
# Converted to fp16, these weights already have the layout of operand a: the weights of keys `16 * k` to `16 * k + 15`
# are in `p[t][2 * k]` and `p[t][2 * k + 1]`. Operand b is a part of v, 16 rows by 8 columns. Each register of b holds
# two adjacent elements of a column. They are not contiguous in v, so use `ldmatrix_x4_trans`.
#
# <details><summary>Hint 1</summary>For q and v, pass the address of row <code>lane % 16</code>, column
# <code>lane / 16 * 8</code> of a 16 × 16 part. For k, pass the address of key <code>lane / 16 * 8 + lane % 8</code>,
# column <code>lane / 8 % 2 * 8</code>. If you load k into <code>unsigned b[4]</code>, then <code>b[0]</code> and
# <code>b[1]</code> are b0 and b1 of the first 8 keys, and <code>b[2]</code> and <code>b[3]</code> are those of the next
# 8 keys.</details>
# <details><summary>Hint 2</summary>In <code>soften</code>, for each <code>t</code> and for <code>h</code> = 0 and 1,
# take the maximum <code>x</code> of <code>s[t][n][2 * h]</code> and <code>s[t][n][2 * h + 1]</code> over all
# <code>n</code>. Set <code>x</code> to the larger of <code>x</code> and <code>__shfl_xor_sync(~0u, x, 1)</code>; then
# do the same with 2 instead of 1. Multiply this maximum by <code>scale</code> before you update m. Then p = fast_exp2(s
# · scale − m). Each lane sums only its own weights in l.</details>
# <details><summary>Hint 3</summary>In <code>weigh</code>, the first two registers of a are
# <code>pack(p[t][2 * k][0], p[t][2 * k][1])</code> and <code>pack(p[t][2 * k][2], p[t][2 * k][3])</code>. The other two
# come from <code>p[t][2 * k + 1]</code> in the same way. Load each piece of k and v once, and use it for all
# <code>t</code>.</details>

# %% cell="solution" id="flash_tensor"
# %%cuda flash_tensor<64,2,2,32>
# #include <cuda_fp16.h>
# #include <cuda_pipeline.h>
# #include <lab/mma.cuh>
#
# // Starts to copy x[row + i][j] to tile[i][j], with 0 past the end. Rows are padded to D + 8 to avoid bank conflicts.
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
# // Computes s = q k^T.
# //   s       (16 * TILES) x BLOCK_N, in pieces of 16 x 8
# //   q_tile  (16 * TILES) x D
# //   k_tile  BLOCK_N x D
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
# // Replaces s by p = exp2(scale * s - m) with the new maxima m, rescales l and o, and adds the lane's own p to l.
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
# // Adds p v to o.
# //   p       (16 * TILES) x BLOCK_N, in pieces of 16 x 8
# //   v_tile  BLOCK_N x D
# //   o       (16 * TILES) x D, in pieces of 16 x 8
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
# // Computes what flash_scalar computes, with 16 * TILES queries per warp and two buffers of BLOCK_N keys and values.
# template <int D, int WARPS, int TILES, int BLOCK_N>
# __global__ void __launch_bounds__(32 * WARPS)
# flash_tensor(const half *q, const half *k, const half *v, half *out, float *lse, int M, int N, float scale) {
#     constexpr int PITCH = D + 8, BLOCK_M = 16 * TILES * WARPS, THREADS = 32 * WARPS, TILE = BLOCK_N * PITCH;
#     extern __shared__ __align__(128) half memory[];
#     half *q_tile = memory, *kv_tiles = memory + BLOCK_M * PITCH;
#     int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * BLOCK_M;
#     size_t head = blockIdx.y;
#     q += head * M * D, out += head * M * D, lse += head * M, k += head * N * D, v += head * N * D;
#     auto fetch = [&](int start, int buffer) {  // a function that can use all variables above
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
#         __syncthreads();  // buffer `now` is full, and no warp still reads the other buffer
#         if (start + BLOCK_N < N) fetch(start + BLOCK_N, 1 - now);
#         const half *k_tile = kv_tiles + 2 * now * TILE, *v_tile = k_tile + TILE;
#         scores<D, TILES, BLOCK_N>(s, q_tile + 16 * TILES * warp * PITCH, k_tile);
#         if (start + BLOCK_N > N) {  // some keys are past the end
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

# %% cell="check" exercise="20_flash_cuda/tensor"
lab.check("20_flash_cuda/tensor")

# %%
lab.claims("20_flash_cuda")  # a two-minute quiz: predict each number, then compare
# This cell counts the bytes that your two kernels read, and compares their speed with two attention kernels of PyTorch.
fragments.counts({"scalar": scalar, "tensor": tensor})
fragments.speeds({"scalar": scalar, "tensor": tensor})

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** For D = 64, a block of `flash_tensor` has 4 warps of 32 queries each. A thread needs
# {claim: flash_tensor_registers} registers, so {claim: flash_tensor_warps} warps fit on an SM. If a block has 8 warps
# of 16 queries each instead, a thread needs only {claim: flash_tensor_registers_16} registers, so
# {claim: flash_tensor_warps_16} warps fit on an SM. Why is the version with 32 queries per warp faster, although fewer
# warps fit? Use `shared_intensity`.
#
# ### BEGIN SOLUTION
# Every warp reads all keys and values of a tile. With 16 queries, a warp does 16 FLOPs per byte, so the 128 bytes per
# cycle of an SM allow 2048 FLOPs per cycle. This is no more than the tensor cores can do with `mma.sync`, so they wait
# for shared memory. With 32 queries, each byte is used for twice as many queries, so shared memory is busy only about
# half of the time. Having fewer warps does little harm, because each warp has many independent products, which hide
# latency: for every 16 elements of D, `scores` starts 2 · 8 of them.
# ### END SOLUTION

# %% [markdown]
# **What others do.** This table compares your `flash_tensor` with three versions of FlashAttention:
#
# | | yours | FlashAttention-2 | FlashAttention-3 | FlashAttention-4 |
# |---|---|---|---|---|
# | products | mma.sync | mma.sync | [wgmma](../glossary.md#wgmma) | [tcgen05](../glossary.md#tcgen05) |
# | accumulators in | registers | registers | registers | [tensor memory](../glossary.md#tensor-memory) |
# | copies by | all warps, cp.async | all warps, cp.async | one warp, [TMA](../glossary.md#tma) | one warp, TMA |
# | softmax overlaps with products of | other warps | other warps | the other warpgroup | the other tile of queries |
# | bank conflicts avoided by | padded rows | XOR swizzle | XOR swizzle, by the TMA | XOR swizzle, by the TMA |
#
# **Next.** `20_hunt` hides bugs in kernels like these. Add a causal mask, with two loops as in unit 17. During `weigh`,
# load the keys of the next tile; during `scores`, load the values of the current tile. Then one buffer of keys and one
# of values are enough. Replace the [padding](../glossary.md#padding) by unit 09's [swizzle](../glossary.md#swizzle).
# `16_matmul_hopper` introduces the instructions of FlashAttention-3.
#
# **In practice**, you would start from Triton, which generates tensor core instructions for you (unit 17), or from
# CuTe, a part of NVIDIA's CUTLASS library. A CuTe layout describes which lane holds which element; here, you worked
# this out by hand.
#
# **Reading.** [PTX:
# mma.m16n8k16](https://docs.nvidia.com/cuda/parallel-thread-execution/#warp-level-matrix-fragment-mma-16816-float):
# pictures of the fragment layouts. [FlashAttention-2](https://arxiv.org/abs/2307.08691), section 3.3: how warps share
# the work. [Dissecting Hopper](https://arxiv.org/abs/2402.13499): mma.sync compared with wgmma.

# %% [markdown]
# # Bug hunt: decoding, and attention in CUDA C++
#
# **You will** find one bug in each of four attention kernels. First the kernels show only what they do: cases that
# fail, values, counts. You name line and cause, then you fix the kernel.
#
# **You will learn to**
# - test a batch whose sequences differ;
# - compute how large an offset can become;
# - follow a value from one lane to another;
# - look for a pattern in the columns that are wrong.
#
# **You need** `19_decode_attention` and `20_flash_cuda`. About 65 minutes. You need no GPU.
#
# Do not run the checks of the last section before you have named the bugs: they name causes, too.

# %% cell="setup"

# %% cell="given" id="launchers"
import torch
import triton
import triton.language as tl
from triton import cdiv

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


def strides(*arrays):
    """Return the strides of each array, except the stride of its last axis, which is 1."""
    return [s for x in arrays for s in x.stride()[:-1]]


def tile_config(N):
    return dict(BLOCK_N=64, num_warps=4, num_stages=3) if N > 256 else dict(BLOCK_N=16, num_warps=4, num_stages=2)


def constants(q, key_heads):
    group = q.shape[1] // key_heads
    return dict(GROUP=group, D=q.shape[2], BLOCK_G=max(16, triton.next_power_of_2(group)))


def partial(q, k, v, lengths, chunk, part, lse, config=None):
    B, HK, N, D = k.shape
    partial_kernel[part.shape[2], HK, B](
        q, k, v, lengths, part, lse, chunk, LOG2_E.value * D**-0.5, *strides(q, k, v, part, lse),
        **constants(q, HK), **(config or tile_config(N)),
    )  # fmt: skip


@triton.jit
def join(s, v, m, l, acc, scale):
    """Return (m, l, acc) after one more tile, with raw scores s (BLOCK_G, BLOCK_N) and values v (BLOCK_N, D)."""
    m_new = tl.maximum(m, tl.max(s, 1) * scale)
    p = tl.exp2(s * scale - m_new[:, None])
    factor = tl.exp2(m - m_new)
    l = l * factor + tl.sum(p, 1)
    acc = tl.dot(p.to(v.dtype), v, acc * factor[:, None])
    return m_new, l, acc


def chunk_of(B, HK, N, BLOCK_N):
    """Return the number of keys in a part (level 1). The aim is 8 programs per SM, with at most 64 parts per cache."""
    gpu = lab.device.current()
    wanted = 8 * (gpu.sms if gpu else 132)  # tuned by `python -m bench.decode --tune`
    splits = min(max(1, wanted // (B * HK)), triton.cdiv(N, 2 * BLOCK_N), 64)
    return triton.cdiv(triton.cdiv(N, splits), BLOCK_N) * BLOCK_N


def allocate_parts(q, S):
    return q.new_empty(*q.shape[:2], S, q.shape[2], dtype=torch.float32), q.new_empty(
        *q.shape[:2], S, dtype=torch.float32
    )


def combine(part, lse, out):
    (B, H, S, D) = part.shape
    combine_kernel[(B * H,)](part, lse, out, S, H, *strides(out), D=D, BLOCK_S=max(8, triton.next_power_of_2(S)))


def paged_config(N):
    config = tile_config(N)
    return config | dict(num_stages=config["num_stages"] + 2)  # loads of page numbers need stages too


def paged(q, k, v, table, lengths, out, chunk=None, config=None):
    (_, HK, PAGE, D), (B, T) = k.shape, table.shape
    config = config or paged_config(T * PAGE)
    chunk = chunk or chunk_of(B, HK, T * PAGE, config["BLOCK_N"])
    part, lse = allocate_parts(q, triton.cdiv(T * PAGE, chunk))
    paged_kernel[part.shape[2], HK, B](
        q, k, v, table, lengths, part, lse, chunk, LOG2_E.value * D**-0.5, *strides(q, k, v, table, part, lse),
        PAGE=PAGE, **constants(q, HK), **config,
    )  # fmt: skip
    combine(part, lse, out)


@triton.jit
def combine_kernel(
    part_ptr, lse_ptr, out_ptr, S, H, stride_ob, stride_oh, D: tl.constexpr, BLOCK_S: tl.constexpr
):  # fmt: skip
    """Compute out[b, h] = sum over s of softmax(lse[b, h])[s] * part[b, h, s], for one row = b * H + h."""
    row = tl.program_id(0).to(tl.int64)
    offs_s, offs_d = tl.arange(0, BLOCK_S), tl.arange(0, D)
    mask_s = offs_s < S
    lse = tl.load(lse_ptr + row * S + offs_s, mask=mask_s, other=-float("inf"))
    part_ptrs = part_ptr + (row * S + offs_s[:, None]) * D + offs_d[None, :]
    part = tl.load(part_ptrs, mask=mask_s[:, None], other=0.0)
    weights = tl.exp(lse - tl.max(lse, 0))
    out = tl.sum(weights[:, None] * part, 0) / tl.sum(weights, 0)
    tl.store(out_ptr + row // H * stride_ob + row % H * stride_oh + offs_d, out)


def scalar(q, k, v, out, lse):
    (H, M, D), N = q.shape, k.shape[1]
    kernel = flash_scalar if D == 64 else flash_scalar.module[f"flash_scalar<{D}>"]
    kernel[(cdiv(M, 32), H), 128](q, k, v, out, lse, M, N, LOG2_E.value * D**-0.5)


def tensor(q, k, v, out, lse):
    (H, M, D), N = q.shape, k.shape[1]
    warps, tiles, block_n = (2, 2, 32) if M * N < 2**16 else (4, 2, 64)
    kernel = flash_tensor
    if (D, warps, block_n) != (64, 2, 32):
        kernel = kernel.module[f"flash_tensor<{D},{warps},{tiles},{block_n}>"]
    block_m, shared = 16 * tiles * warps, 2 * (16 * tiles * warps + 4 * block_n) * (D + 8)
    # 16-byte copies need 16-byte aligned arrays
    q, k, v, o = lab.aligned(q), lab.aligned(k), lab.aligned(v), lab.aligned(out, keep=False)
    kernel[(cdiv(M, block_m), H), 32 * warps, shared](q, k, v, o, lse, M, N, LOG2_E.value * D**-0.5)
    if o is not out:
        out.copy_(o)


# %% [markdown]
# ## 1 A part of the keys
#
# The kernel computes attention of one new token over a part of the keys. A server that decodes one sequence at a time
# has no complaints.


# %% cell="hunt" id="partial_kernel" exercise="20_hunt/partial"
@triton.jit
def partial_kernel(
    q_ptr, k_ptr, v_ptr, lengths_ptr, part_ptr, lse_ptr, chunk, scale,
    stride_qb, stride_qh, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
    stride_pb, stride_ph, stride_ps, stride_lb, stride_lh, GROUP,
    D: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute part and lse for the query heads of one key head, over `chunk` keys of one sequence."""
    split, key_head, b = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    offs_g, offs_n, offs_d = tl.arange(0, BLOCK_G), tl.arange(0, BLOCK_N), tl.arange(0, D)
    length = tl.load(lengths_ptr + b)
    m = tl.full((BLOCK_G,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_G,), tl.float32)
    acc = tl.zeros((BLOCK_G, D), tl.float32)
    ### BEGIN SOLUTION
    heads, mask_g = key_head * GROUP + offs_g, offs_g < GROUP
    q_ptrs = q_ptr + b * stride_qb + heads[:, None] * stride_qh + offs_d[None, :]
    q = tl.load(q_ptrs, mask=mask_g[:, None], other=0.0)
    k_ptrs = k_ptr + b * stride_kb + key_head * stride_kh + offs_n[:, None] * stride_kn + offs_d[None, :]
    v_ptrs = v_ptr + b * stride_vb + key_head * stride_vh + offs_n[:, None] * stride_vn + offs_d[None, :]
    end = tl.minimum(split * chunk + chunk, length)
    for start in range(split * chunk, end, BLOCK_N):
        mask_n = start + offs_n < end
        k = tl.load(k_ptrs + start * stride_kn, mask=mask_n[:, None], other=0.0)
        v = tl.load(v_ptrs + start * stride_vn, mask=mask_n[:, None], other=0.0)
        s = tl.where(mask_n[None, :], tl.dot(q, k.T), -float("inf"))
        m, l, acc = join(s, v, m, l, acc, scale)
    part = acc / tl.where(l > 0, l, 1.0)[:, None]
    part_ptrs = part_ptr + b * stride_pb + heads[:, None] * stride_ph + split * stride_ps + offs_d[None, :]
    tl.store(part_ptrs, part, mask=mask_g[:, None])
    tl.store(lse_ptr + b * stride_lb + heads * stride_lh + split, (m + tl.log2(l)) * LN_2, mask=mask_g)
    ### END SOLUTION


# %%
lab.evidence("20_hunt/partial")

# %% [markdown]
# ## 2 A paged cache
#
# Keys and values are in pages of a pool, and a table lists the pages of each sequence. On a GPU with little memory, the
# server never failed. On one with much memory it crashes as soon as many users are served.


# %% cell="hunt" id="paged_kernel" exercise="20_hunt/paged"
@triton.jit
def paged_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, part_ptr, lse_ptr, chunk, scale,
    stride_qb, stride_qh, stride_kp, stride_kh, stride_kn, stride_vp, stride_vh, stride_vn, stride_tb,
    stride_pb, stride_ph, stride_ps, stride_lb, stride_lh, GROUP,
    PAGE: tl.constexpr, D: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute the same as partial_kernel, with keys and values in pages of PAGE tokens. `table` lists the pages."""
    split, key_head, b = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    offs_g, offs_n, offs_d = tl.arange(0, BLOCK_G), tl.arange(0, BLOCK_N), tl.arange(0, D)
    length = tl.load(lengths_ptr + b)
    m = tl.full((BLOCK_G,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_G,), tl.float32)
    acc = tl.zeros((BLOCK_G, D), tl.float32)
    heads, mask_g = key_head * GROUP + offs_g, offs_g < GROUP
    q_ptrs = q_ptr + b * stride_qb + heads[:, None] * stride_qh + offs_d[None, :]
    q = tl.load(q_ptrs, mask=mask_g[:, None], other=0.0)
    ### BEGIN SOLUTION
    k_ptrs = k_ptr + key_head * stride_kh + offs_d[None, :]
    v_ptrs = v_ptr + key_head * stride_vh + offs_d[None, :]
    end = tl.minimum(split * chunk + chunk, length)
    for start in range(split * chunk, end, BLOCK_N):
        keys = start + offs_n
        mask_n = keys < end
        page = tl.load(table_ptr + b * stride_tb + keys // PAGE, mask=mask_n, other=0).to(tl.int64)
        place = keys % PAGE
        k = tl.load(k_ptrs + (page * stride_kp + place * stride_kn)[:, None], mask=mask_n[:, None], other=0.0)
        v = tl.load(v_ptrs + (page * stride_vp + place * stride_vn)[:, None], mask=mask_n[:, None], other=0.0)
        s = tl.where(mask_n[None, :], tl.dot(q, k.T), -float("inf"))
        m, l, acc = join(s, v, m, l, acc, scale)
    ### END SOLUTION
    part = acc / tl.where(l > 0, l, 1.0)[:, None]
    part_ptrs = part_ptr + b * stride_pb + heads[:, None] * stride_ph + split * stride_ps + offs_d[None, :]
    tl.store(part_ptrs, part, mask=mask_g[:, None])
    tl.store(lse_ptr + b * stride_lb + heads * stride_lh + split, (m + tl.log2(l)) * LN_2, mask=mask_g)


# %%
lab.evidence("20_hunt/paged")

# %% [markdown]
# ## 3 Attention with shuffles
#
# Each lane computes the scores of one key. To multiply by the values, a lane needs the weights of all keys.

# %% cell="hunt" id="scalar_kernel" exercise="20_hunt/scalar"
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

# %%
lab.evidence("20_hunt/scalar")

# %% [markdown]
# ## 4 Attention on tensor cores
#
# The kernel of unit 20's second level: each warp computes 32 queries, and a lane holds pairs of neighboring columns of
# the output. Short sequences pass every test.

# %% cell="hunt" id="tensor_kernel" exercise="20_hunt/tensor"
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

# %%
lab.evidence("20_hunt/tensor")

# %% [markdown]
# ## 5 Name the bugs
#
# Fill in `bug`: for each hunt, the line of its kernel's cell where the bug is, and the cause. Lines count from 1 (View
# → Show Line Numbers); in a CUDA C++ cell, `%%cuda` is line 1. If several lines can be changed to fix the bug, any of
# them is right.
#
# The causes to choose from:
#
# - wrong sequence
# - 32-bit overflow
# - wrong lane
# - off by one
# - padding takes part
# - missing rescale
# - wrong page
# - missing barrier
#
# <details><summary>Hint 1</summary><code>partial</code>: which cases have sequences of different lengths?</details>
# <details><summary>Hint 2</summary><code>paged</code>: multiply the largest page number by the stride of a page. Which
# type has the product?</details>
# <details><summary>Hint 3</summary><code>scalar</code>: the weight of key j for a query is in one lane. Which lanes
# need it?</details>
# <details><summary>Hint 4</summary><code>tensor</code>: which columns of the output are wrong? Which element of a piece
# of o holds such a column?</details>


# %% cell="solution" id="bug"
def bug(hunt):
    """Return the line and the cause of a hunt's bug, such as {"line": 12, "cause": "…"}.

    hunt  "partial", "paged", "scalar", or "tensor"
    """
    ### BEGIN SOLUTION
    found = {
        "partial": {"line": 11, "cause": "wrong sequence"},
        "paged": {"line": 24, "cause": "32-bit overflow"},
        "scalar": {"line": 50, "cause": "wrong lane"},
        "tensor": {"line": 70, "cause": "missing rescale"},
    }
    return found[hunt]
    ### END SOLUTION


# %% cell="check" exercise="20_hunt/bug"
lab.check("20_hunt/bug")

# %% [markdown]
# ## 6 Fix them
#
# Change the kernels in their cells above, run the cells, and check. A fix needs few characters or lines; the rest of
# the kernel is right.

# %% cell="check" exercise="20_hunt/partial"
lab.check("20_hunt/partial")

# %% cell="check" exercise="20_hunt/paged"
lab.check("20_hunt/paged")

# %% cell="check" exercise="20_hunt/scalar"
lab.check("20_hunt/scalar")

# %% cell="check" exercise="20_hunt/tensor"
lab.check("20_hunt/tensor")

# %% [markdown]
# **Next.** `21_launch_overhead` is about the time between kernels.
#
# **In practice** keep each bug that you fix as a test: the smallest case that showed it.

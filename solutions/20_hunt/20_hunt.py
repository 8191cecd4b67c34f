# %% [markdown]
# # Bug hunt: decoding, and attention in CUDA C++
#
# **You will** find one bug in each of three attention kernels. First the kernels show only what they do: cases that
# fail, values, counts. You name line and cause, then you fix the kernel.
#
# **You will learn to**
# - test a batch whose sequences differ;
# - compute how large an offset can become;
# - follow a value from one lane to another.
#
# **You need** `19_decode_attention` and `20_flash_cuda`. About 50 minutes. You need no GPU.
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
# ## 4 Name the bugs
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


# %% cell="solution" id="bug"
def bug(hunt):
    """Return the line and the cause of a hunt's bug, such as {"line": 12, "cause": "…"}.

    hunt  "partial" or "paged" or "scalar"
    """
    ### BEGIN SOLUTION
    found = {
        "partial": {"line": 11, "cause": "wrong sequence"},
        "paged": {"line": 24, "cause": "32-bit overflow"},
        "scalar": {"line": 50, "cause": "wrong lane"},
    }
    return found[hunt]
    ### END SOLUTION


# %% cell="check" exercise="20_hunt/bug"
lab.check("20_hunt/bug")

# %% [markdown]
# ## 5 Fix them
#
# Change the kernels in their cells above, run the cells, and check. A fix needs few characters or lines; the rest of
# the kernel is right.

# %% cell="check" exercise="20_hunt/partial"
lab.check("20_hunt/partial")

# %% cell="check" exercise="20_hunt/paged"
lab.check("20_hunt/paged")

# %% cell="check" exercise="20_hunt/scalar"
lab.check("20_hunt/scalar")

# %% [markdown]
# **Next.** `21_launch_overhead` is about the time between kernels.
#
# **In practice** keep each bug that you fix as a test: the smallest case that showed it.

# %% [markdown]
# # Bug hunt: kernels of a transformer block, and one to profile
#
# **You will** find one bug in each of three kernels of a transformer block, and in a kernel that is right but slow.
# First the kernels show only what they do:
# cases that fail, values, counts. You name line and cause, then you fix the kernel.
#
# **You will learn to**
# - test a batch of several sequences;
# - look at the last row of a reduction in two stages;
# - compare a rounding with PyTorch's;
# - find a fault that only counters show.
#
# **You need** `24_block_kernels` and `25_profile`. About 60 minutes. You need no GPU.
#
# Do not run the checks of the last section before you have named the bugs: they name causes, too.

# %% cell="setup"

# %% cell="given" id="launchers"
import torch
import triton
import triton.language as tl


def rope(q, k, cos, sin, backward, q_out, k_out):
    (B, T, H, D), HK = q.shape, k.shape[2]
    BLOCK_H, BLOCK_HK, BLOCK_D = (triton.next_power_of_2(n) for n in (H, HK, D // 2))
    rope_kernel[(B * T,)](
        q, k, cos, sin, q_out, k_out, T, H=H, HK=HK, D=D, BACKWARD=bool(backward),
        BLOCK_H=BLOCK_H, BLOCK_HK=BLOCK_HK, BLOCK_D=BLOCK_D, num_warps=2,
    )  # fmt: skip


@triton.jit
def rotate_heads(x_ptr, out_ptr, cos, sin, H: tl.constexpr, D: tl.constexpr, BLOCK_H: tl.constexpr):
    """Rotate the H heads of one token.

    x_ptr, out_ptr  first element of the token, (H, D)
    cos, sin        (BLOCK_D,) values, BLOCK_D >= D / 2
    """
    offs_h, offs_d = tl.arange(0, BLOCK_H), tl.arange(0, cos.shape[0])
    mask = (offs_h[:, None] < H) & (offs_d[None, :] < D // 2)
    first = offs_h[:, None] * D + offs_d[None, :]
    second = first + D // 2
    a = tl.load(x_ptr + first, mask=mask).to(tl.float32)
    b = tl.load(x_ptr + second, mask=mask).to(tl.float32)
    tl.store(out_ptr + first, a * cos[None, :] - b * sin[None, :], mask=mask)
    tl.store(out_ptr + second, b * cos[None, :] + a * sin[None, :], mask=mask)


EPS = tl.constexpr(1e-6)


def norm_programs(M, N):
    """Number of programs for M rows of N elements: enough to keep memory busy, with 8 rows or more each."""
    gpu = lab.device.current()
    most = gpu.sms * min(max(8192 // N, 1), 8) if gpu else 8
    programs = min(M, max(triton.cdiv(M, 8), 2), most)
    return triton.cdiv(M, triton.cdiv(M, programs))


def rms_norm_backward(x, w, dy, dx, dw):
    (M, N), BLOCK_N = x.shape, triton.next_power_of_2(x.shape[1])
    programs = norm_programs(M, N)
    partial = torch.empty(programs, N, dtype=torch.float32, device=x.device)
    strides = x.stride(0), dy.stride(0), dx.stride(0)
    alone = N > 4096 and BLOCK_N * x.element_size() <= 16_384  # one program per SM needs more loads in flight
    rms_norm_backward_kernel[(programs,)](
        x, w, dy, dx, partial, M, N, *strides,
        BLOCK_N=BLOCK_N, STAGES=4 if alone else 3 if BLOCK_N <= 8192 else 1, num_warps=min(max(BLOCK_N // 512, 1), 16),
    )  # fmt: skip
    BLOCK_P = min(triton.next_power_of_2(programs), 512) if lab.device.has_gpu() else 4
    column_sums_kernel[(triton.cdiv(N, 32),)](partial, dw, programs, N, BLOCK_P=BLOCK_P, BLOCK_N=32, num_warps=8)


def swiglu(x, out, BLOCK_N=1024):
    M, N = out.shape
    swiglu_kernel[(M * triton.cdiv(N, BLOCK_N),)](x, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N)


def interleave(x, out):
    M, N = x.shape
    interleave_kernel[(triton.cdiv(N, 32), triton.cdiv(M, 32)), (32, 8)](out, x, M, N)


# %% [markdown]
# ## 1 RoPE
#
# The kernel rotates pairs of elements of q and k by an angle that depends on the token's position. `rotate_heads` is
# right. With a batch of one sequence, the model writes sensible text.


# %% cell="hunt" id="rope_kernel" exercise="25_hunt/rope"
@triton.jit
def rope_kernel(
    q_ptr, k_ptr, cos_ptr, sin_ptr, q_out_ptr, k_out_ptr, T,
    H: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, BACKWARD: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK_HK: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Rotate all heads of one token of q and k. If BACKWARD, rotate by the negative angle."""
    pid = tl.program_id(0)  # from 0 to B * T - 1
    token = pid.to(tl.int64)
    offs_d = tl.arange(0, BLOCK_D)
    mask_d = offs_d < D // 2
    ### BEGIN SOLUTION
    row = pid % T * (D // 2)
    cos = tl.load(cos_ptr + row + offs_d, mask=mask_d)
    sin = tl.load(sin_ptr + row + offs_d, mask=mask_d)
    if BACKWARD:
        sin = -sin
    rotate_heads(q_ptr + token * H * D, q_out_ptr + token * H * D, cos, sin, H, D, BLOCK_H)
    rotate_heads(k_ptr + token * HK * D, k_out_ptr + token * HK * D, cos, sin, HK, D, BLOCK_HK)
    ### END SOLUTION


# %%
lab.evidence("25_hunt/rope")
lab.tiny("25_hunt/rope")

# %% [markdown]
# ## 2 RMSNorm's backward pass
#
# P programs each add up dw over their rows, and a second kernel adds up these P sums. The gradient of the weight is a
# little wrong.


# %% cell="hunt" id="rms_norm_backward_kernel" exercise="25_hunt/rms_norm_backward"
@triton.jit
def rms_norm_backward_kernel(
    x_ptr, w_ptr, dy_ptr, dx_ptr, partial_ptr, M, N, stride_xm, stride_ym, stride_dm,
    BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Store dx of every P-th row, and the sum of dy * x * r over these rows in row pid of partial. P programs run."""
    offs_n = tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    ### BEGIN SOLUTION
    w = tl.load(w_ptr + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK_N,), tl.float32)
    for row in tl.range(tl.program_id(0), M, tl.num_programs(0), num_stages=STAGES):
        x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * stride_ym + offs_n, mask=mask_n, other=0.0).to(tl.float32)
        r = tl.rsqrt(tl.sum(x * x) / N + EPS)
        mean = tl.sum(dy * w * x) / N
        tl.store(dx_ptr + row * stride_dm + offs_n, r * (dy * w - x * (r * r * mean)), mask=mask_n)
        dw += dy * x * r
    tl.store(partial_ptr + tl.program_id(0) * N + offs_n, dw, mask=mask_n)
    ### END SOLUTION


@triton.jit
def column_sums_kernel(partial_ptr, dw_ptr, P, N, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr):
    """dw[n] = sum of partial[p, n] over p < P, for BLOCK_N columns n."""
    offs_p, offs_n = tl.arange(0, BLOCK_P), tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    ### BEGIN SOLUTION
    dw = tl.zeros((BLOCK_N,), tl.float32)
    for first in range(0, P, BLOCK_P):
        rows = first + offs_p[:, None]
        dw += tl.sum(tl.load(partial_ptr + rows * N + offs_n[None, :], mask=(rows < P) & mask_n[None, :], other=0.0), 0)
    tl.store(dw_ptr + offs_n, dw, mask=mask_n)
    ### END SOLUTION


# %%
lab.evidence("25_hunt/rms_norm_backward")

# %% [markdown]
# ## 3 SwiGLU
#
# The kernel multiplies silu(gate) by up. In fp32 it is exact. In fp16 it agrees with eager PyTorch to the last bit, and
# still fails the check.


# %% cell="hunt" id="swiglu_kernel" exercise="25_hunt/swiglu"
@triton.jit
def swiglu_kernel(x_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    """out[m, n] = silu(x[m, n]) * x[m, N + n] for BLOCK_N columns n of one row m."""
    blocks = tl.cdiv(N, BLOCK_N)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    offs_n = tl.program_id(0) % blocks * BLOCK_N + tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    ### BEGIN SOLUTION
    gate = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n).to(tl.float32)
    up = tl.load(x_ptr + row * stride_xm + N + offs_n, mask=mask_n).to(tl.float32)
    tl.store(out_ptr + row * stride_om + offs_n, gate * tl.sigmoid(gate) * up, mask=mask_n)
    ### END SOLUTION


# %%
lab.evidence("25_hunt/swiglu")

# %% [markdown]
# ## 4 Channels of a recording
#
# The kernel of unit 25 transposes a sound recording and clips it: even channels `m` in one way, odd ones in another.
# Every result is right, its accesses are coalesced, and it has no bank conflicts. Solve `25_profile` first: the kernel
# is that of its last exercise.

# %% cell="hunt" id="interleave_kernel" exercise="25_hunt/interleave"
# %%cuda
# __device__ float even_clip(float v) {
#     for (int k = 0; k < 8; k++) v = v / (1.0f + fabsf(v));
#     return v;
# }
# __device__ float odd_clip(float v) {
#     for (int k = 0; k < 8; k++) v = v / sqrtf(1.0f + v * v);
#     return v;
# }
#
# __global__ void interleave_kernel(float* out, const float* x, int M, int N) {
#     // out[n][m] = clip(x[m][n]); a block of 32 * 8 threads moves a tile of 32 * 32 samples.
#     const int tx = threadIdx.x, first_m = blockIdx.y * 32, first_n = blockIdx.x * 32;
#     // ### BEGIN SOLUTION
#     __shared__ float tile[32][33];
#     for (int y = threadIdx.y; y < 32; y += 8) {
#         const int m = first_m + y, n = first_n + tx;
#         if (m < M && n < N) tile[y][tx] = m % 2 == 0 ? even_clip(x[m * N + n]) : odd_clip(x[m * N + n]);
#     }
#     __syncthreads();
#     for (int y = threadIdx.y; y < 32; y += 8) {
#         const int m = first_m + tx, n = first_n + y;
#         if (m < M && n < N) out[n * M + m] = tile[tx][y];
#     }
#     // ### END SOLUTION
# }

# %%
lab.evidence("25_hunt/interleave")

# %% [markdown]
# ## 5 Name the bugs
#
# Fill in `bug`: for each hunt, the line of its kernel's cell where the bug is, and the cause. Lines count from 1 (View
# → Show Line Numbers); in a CUDA C++ cell, `%%cuda` is line 1. If several lines can be changed to fix the bug, any of
# them is right.
#
# The causes to choose from:
#
# - wrong position
# - last row missing
# - rounded too early
# - swapped halves
# - wrong stride
# - wrong divisor
# - missing mask
# - divergent lanes
#
# <details><summary>Hint 1</summary><code>rope</code>: which token is the first that is wrong? Which row of cos does it
# need?</details>
# <details><summary>Hint 2</summary><code>rms_norm_backward</code>: <code>dx</code> is right. Subtract your
# <code>dw</code> from the expected one: which rows are missing?</details>
# <details><summary>Hint 3</summary><code>swiglu</code>: in which type is the value that is multiplied by up?</details>
# <details><summary>Hint 4</summary><code>interleave</code>: in each of the two loops, which lanes of a warp have the
# same channel m?</details>


# %% cell="solution" id="bug"
def bug(hunt):
    """Return the line and the cause of a hunt's bug, such as {"line": 12, "cause": "…"}.

    hunt  "rope", "rms_norm_backward", "swiglu", or "interleave"
    """
    ### BEGIN SOLUTION
    found = {
        "rope": {"line": 12, "cause": "wrong position"},
        "rms_norm_backward": {"line": 29, "cause": "last row missing"},
        "swiglu": {"line": 10, "cause": "rounded too early"},
        "interleave": {"line": 17, "cause": "divergent lanes"},
    }
    return found[hunt]
    ### END SOLUTION


# %% cell="check" exercise="25_hunt/bug"
lab.check("25_hunt/bug")

# %% [markdown]
# ## 6 Fix them
#
# Change the kernels in their cells above, run the cells, and check. A fix needs few characters or lines; the rest of
# the kernel is right.

# %% cell="check" exercise="25_hunt/rope"
lab.check("25_hunt/rope")

# %% cell="check" exercise="25_hunt/rms_norm_backward"
lab.check("25_hunt/rms_norm_backward")

# %% cell="check" exercise="25_hunt/swiglu"
lab.check("25_hunt/swiglu")

# %% cell="check" exercise="25_hunt/interleave"
lab.check("25_hunt/interleave")

# %% [markdown]
# **In practice** keep each bug that you fix as a test: the smallest case that showed it.

# %% [markdown]
# # Train with your kernels
#
# **You will** connect the kernels of `13_fusion` and `24_block_kernels` to PyTorch's
# [autograd](../glossary.md#autograd), and train a small language model with these kernels. In each step, the loss must
# be the same as with PyTorch's operations, except for rounding.
#
# **You will learn to**
#
# - write a `torch.autograd.Function`: what to save, what to recompute, and what to return;
# - accept gradients with any strides;
# - find out whether a difference that grows from step to step is rounding or a mistake.
#
# **You need** `24_block_kernels`. About 40 minutes. You need no GPU; with a GPU, the model is larger.
#
# ## 1 Three functions
#
# Autograd calls `forward(ctx, …)` with the inputs. It calls `backward(ctx, …)` with one gradient for each result, and
# expects one gradient for each *input* of `forward`, in the same order. Return `None` for an input that needs no
# gradient, such as `cos`. In `forward`, `ctx.save_for_backward(…)` keeps tensors for the [backward
# pass](../glossary.md#backward-pass); in `backward`, `ctx.saved_tensors` returns them.
#
# **Predict.** How many bytes does each of the three functions below (RMSNorm, RoPE, SwiGLU) keep for the backward pass,
# if its result has M · N elements in [fp32](../glossary.md#fp32)? Do not count weights, `cos` and `sin`, which the
# model keeps anyway.
#
# The code cells below hold the kernels and their launchers. Write `forward` and `backward` of each class. The model
# calls the class's `apply`:
#
# | class | inputs of `apply` | results | launchers |
# |---|---|---|---|
# | `RMSNorm` | x (M, N), w (N,) | y (M, N) | `rms_norm`, `rms_norm_backward` |
# | `RoPE` | q (B, T, H, D), k (B, T, HK, D), cos, sin | rotated q, k | `rope`, with `backward` 0 or 1 |
# | `SwiGLU` | x (M, 2N) | (M, N) | `swiglu`, `swiglu_backward` |
#
# A gradient that `backward` gets may have any [strides](../glossary.md#stride): it may be transposed, for example, or
# all its rows may use the same memory. Your kernels need contiguous rows, and `rope` needs contiguous arrays.
#
# <details><summary>Hint 1</summary><code>torch.empty_like(x)</code> allocates an array for a result. For SwiGLU, use
# <code>x.new_empty(M, N)</code>.</details>
# <details><summary>Hint 2</summary>Call <code>dy.contiguous()</code> before you launch a kernel.</details>
# <details><summary>Hint 3</summary>The backward pass of RoPE needs neither q nor k: it rotates the gradients by the
# negative angle.</details>

# %% cell="setup"

# %% cell="given" id="kernels"
import torch
import triton
import triton.language as tl

from labutils import training

EPS = tl.constexpr(1e-6)


def rope(q, k, cos, sin, backward, q_out, k_out):
    (B, T, H, D), HK = q.shape, k.shape[2]
    BLOCK_H, BLOCK_HK = (min(triton.next_power_of_2(n), 16) for n in (H, HK))
    rope_kernel[(B * T,)](
        q, k, cos, sin, q_out, k_out, T, H=H, HK=HK, D=D, BACKWARD=bool(backward),
        BLOCK_H=BLOCK_H, BLOCK_HK=BLOCK_HK, BLOCK_D=triton.next_power_of_2(D // 2), num_warps=8,
    )  # fmt: skip


def swiglu(x, out, BLOCK_N=1024):
    M, N = out.shape
    swiglu_kernel[(M * triton.cdiv(N, BLOCK_N),)](x, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N)


def swiglu_backward(x, dy, dx, BLOCK_N=1024):
    M, N = dy.shape
    strides = x.stride(0), dy.stride(0), dx.stride(0)
    swiglu_backward_kernel[(M * triton.cdiv(N, BLOCK_N),)](x, dy, dx, N, *strides, BLOCK_N=BLOCK_N)


def norm_programs(M, N):
    """Number of programs for M rows of N elements: enough to keep memory busy, with 8 rows or more each."""
    gpu = lab.device.current()
    most = gpu.sms * min(max(4096 // N, 1), 8) if gpu else 8
    programs = min(M, max(triton.cdiv(M, 8), 2), most)
    return triton.cdiv(M, triton.cdiv(M, programs))


def rms_norm_backward(x, w, dy, dx, dw):
    (M, N), BLOCK_N = x.shape, triton.next_power_of_2(x.shape[1])
    programs = norm_programs(M, N)
    partial = torch.empty(programs, N, dtype=torch.float32, device=x.device)
    strides = x.stride(0), dy.stride(0), dx.stride(0)
    gpu, stage_bytes = lab.device.current(), 2 * BLOCK_N * x.element_size()  # a row of x and one of dy
    stages = min(gpu.limits.shared_per_block_kb * 1024 // stage_bytes, 5) if gpu else 3
    rms_norm_backward_kernel[(programs,)](
        x, w, dy, dx, partial, M, N, *strides,
        BLOCK_N=BLOCK_N, STAGES=max(stages, 1), num_warps=min(max(BLOCK_N // 256, 1), 16),
    )  # fmt: skip
    BLOCK_P = min(triton.next_power_of_2(programs), 512) if lab.device.has_gpu() else 4
    column_sums_kernel[(triton.cdiv(N, 32),)](partial, dw, programs, N, BLOCK_P=BLOCK_P, BLOCK_N=32, num_warps=8)


def rms_norm(x, w, out):
    (M, N), BLOCK_N = x.shape, triton.next_power_of_2(x.shape[1])
    warps = min(max(BLOCK_N // 1024, 1), 16)
    rms_norm_kernel[(M,)](x, w, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N, num_warps=warps)


@triton.jit
def rms_norm_kernel(x_ptr, w_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    """out[m, n] = x[m, n] * w[n] / sqrt(sum_k x[m, k]^2 / N + EPS): unit 13. One program computes one row."""
    row = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x) / N + EPS)
    tl.store(out_ptr + row * stride_om + offs_n, x * scale * w, mask=mask_n)


@triton.jit
def rotate_heads(x_ptr, out_ptr, cos, sin, H: tl.constexpr, D: tl.constexpr, BLOCK_H: tl.constexpr):
    """Rotate the H heads of one token, BLOCK_H heads at a time.

    x_ptr, out_ptr  first element of the token, (H, D)
    cos, sin        (BLOCK_D,) values, BLOCK_D >= D / 2
    """
    offs_d = tl.arange(0, cos.shape[0])
    for begin in tl.static_range(0, H, BLOCK_H):  # unrolled by the compiler
        offs_h = begin + tl.arange(0, BLOCK_H)
        mask = (offs_h[:, None] < H) & (offs_d[None, :] < D // 2)
        first = offs_h[:, None] * D + offs_d[None, :]
        second = first + D // 2
        a = tl.load(x_ptr + first, mask=mask).to(tl.float32)
        b = tl.load(x_ptr + second, mask=mask).to(tl.float32)
        tl.store(out_ptr + first, a * cos[None, :] - b * sin[None, :], mask=mask)
        tl.store(out_ptr + second, b * cos[None, :] + a * sin[None, :], mask=mask)


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
    row = pid % T * (D // 2)
    cos = tl.load(cos_ptr + row + offs_d, mask=mask_d)
    sin = tl.load(sin_ptr + row + offs_d, mask=mask_d)
    if BACKWARD:
        sin = -sin
    rotate_heads(q_ptr + token * H * D, q_out_ptr + token * H * D, cos, sin, H, D, BLOCK_H)
    rotate_heads(k_ptr + token * HK * D, k_out_ptr + token * HK * D, cos, sin, HK, D, BLOCK_HK)


@triton.jit
def swiglu_kernel(
    x_ptr, out_ptr, N: tl.constexpr, stride_xm: tl.constexpr, stride_om: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """out[m, n] = silu(x[m, n]) * x[m, N + n] for BLOCK_N columns n of one row m."""
    blocks = tl.cdiv(N, BLOCK_N)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    offs_n = tl.program_id(0) % blocks * BLOCK_N + tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    gate = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n).to(tl.float32)
    up = tl.load(x_ptr + row * stride_xm + N + offs_n, mask=mask_n).to(tl.float32)
    tl.store(out_ptr + row * stride_om + offs_n, gate * tl.sigmoid(gate) * up, mask=mask_n)


@triton.jit
def swiglu_backward_kernel(
    x_ptr, dy_ptr, dx_ptr, N: tl.constexpr, stride_xm: tl.constexpr, stride_ym: tl.constexpr,
    stride_dm: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """Store the gradients of gate in dx[m, n] and of up in dx[m, N + n], for BLOCK_N columns n of one row m."""
    blocks = tl.cdiv(N, BLOCK_N)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    offs_n = tl.program_id(0) % blocks * BLOCK_N + tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    gate = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n).to(tl.float32)
    up = tl.load(x_ptr + row * stride_xm + N + offs_n, mask=mask_n).to(tl.float32)
    dy = tl.load(dy_ptr + row * stride_ym + offs_n, mask=mask_n).to(tl.float32)
    s = tl.sigmoid(gate)
    tl.store(dx_ptr + row * stride_dm + offs_n, dy * up * (s + gate * s * (1 - s)), mask=mask_n)
    tl.store(dx_ptr + row * stride_dm + N + offs_n, dy * gate * s, mask=mask_n)


@triton.jit
def add_pairs(a, b, c, d):
    """(a, b) + (c, d), for tl.reduce."""
    return a + c, b + d


@triton.jit
def rms_norm_backward_kernel(
    x_ptr, w_ptr, dy_ptr, dx_ptr, partial_ptr, M, N: tl.constexpr, stride_xm: tl.constexpr, stride_ym: tl.constexpr,
    stride_dm: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Store dx of every P-th row, and the sum of dy * x * r over these rows in row pid of partial. P programs run."""
    offs_n = tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    w = tl.load(w_ptr + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK_N,), tl.float32)
    for row in tl.range(tl.program_id(0), M, tl.num_programs(0), num_stages=STAGES):
        x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * stride_ym + offs_n, mask=mask_n, other=0.0).to(tl.float32)
        squares, products = tl.reduce((x * x, dy * w * x), 0, add_pairs)
        r, mean = tl.rsqrt(squares / N + EPS), products / N
        dx = r * (dy * w - x * (r * r * mean))
        # The next kernel reads dx: ask the L2 to keep it longer than x and dy.
        tl.store(dx_ptr + row * stride_dm + offs_n, dx, mask=mask_n, eviction_policy="evict_last")
        dw += dy * x * r
    tl.store(partial_ptr + tl.program_id(0) * N + offs_n, dw, mask=mask_n)


@triton.jit
def column_sums_kernel(partial_ptr, dw_ptr, P, N: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr):
    """dw[n] = sum of partial[p, n] over p < P, for BLOCK_N columns n."""
    offs_p, offs_n = tl.arange(0, BLOCK_P), tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    dw = tl.zeros((BLOCK_N,), tl.float32)
    for first in range(0, P, BLOCK_P):
        rows = first + offs_p[:, None]
        dw += tl.sum(tl.load(partial_ptr + rows * N + offs_n[None, :], mask=(rows < P) & mask_n[None, :], other=0.0), 0)
    tl.store(dw_ptr + offs_n, dw, mask=mask_n)


# %% cell="solution" id="functions"
class RMSNorm(torch.autograd.Function):
    """y = x · w / sqrt(mean(x²) + EPS) for each row of x (M, N)."""

    @staticmethod
    def forward(ctx, x, w):
        ### BEGIN SOLUTION
        ctx.save_for_backward(x, w)
        y = torch.empty_like(x)
        rms_norm(x, w, y)
        return y
        ### END SOLUTION

    @staticmethod
    def backward(ctx, dy):
        ### BEGIN SOLUTION
        x, w = ctx.saved_tensors
        dx, dw = torch.empty_like(x), torch.empty_like(w)
        rms_norm_backward(x, w, dy.contiguous(), dx, dw)
        return dx, dw
        ### END SOLUTION


class RoPE(torch.autograd.Function):
    """Rotate q and k (B, T, H, D) by the angles of their tokens."""

    @staticmethod
    def forward(ctx, q, k, cos, sin):
        ### BEGIN SOLUTION
        ctx.save_for_backward(cos, sin)
        rotated = torch.empty_like(q), torch.empty_like(k)
        rope(q, k, cos, sin, 0, *rotated)
        return rotated
        ### END SOLUTION

    @staticmethod
    def backward(ctx, dq, dk):
        ### BEGIN SOLUTION
        cos, sin = ctx.saved_tensors
        dq, dk = dq.contiguous(), dk.contiguous()
        gradients = torch.empty_like(dq), torch.empty_like(dk)
        rope(dq, dk, cos, sin, 1, *gradients)
        return *gradients, None, None
        ### END SOLUTION


class SwiGLU(torch.autograd.Function):
    """silu(gate) · up, for x (M, 2N) = (gate, up)."""

    @staticmethod
    def forward(ctx, x):
        ### BEGIN SOLUTION
        ctx.save_for_backward(x)
        y = x.new_empty(len(x), x.shape[1] // 2)
        swiglu(x, y)
        return y
        ### END SOLUTION

    @staticmethod
    def backward(ctx, dy):
        ### BEGIN SOLUTION
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        swiglu_backward(x, dy.contiguous(), dx)
        return dx
        ### END SOLUTION


# %%
training.gradients(RMSNorm.apply, RoPE.apply, SwiGLU.apply)

# %% [markdown]
# The cell above compares each result and each gradient with those of PyTorch in float64. All errors should be near
# 10⁻⁷, the relative error of fp32.
#
# ## 2 Fifty steps
#
# The model is an embedding, one transformer block, and an output matrix. It learns sequences in which each number w is
# followed by 3 · w + 1 (modulo the size of the vocabulary). Differences grow during training: a rounding in step 0
# changes the weights, and therefore changes all later losses. A fixed tolerance would be either too strict for the last
# step or too loose for the first. So the cell below measures how far roundings alone move the losses. It trains the
# model in float64 with PyTorch, once without changes and several times with random changes to the results of the three
# operations. These changes are no larger than fp32 rounding, but the losses drift away from those without changes. Your
# losses may differ from the losses without changes by a small multiple of this drift.
#
# **Predict.** Suppose that `rms_norm_backward_kernel` leaves out the second term of dx (the one with `mean`). Is the
# loss of step 0 right? At which step is the difference first larger than allowed?

# %%
lab.claims("24_training")  # a two-minute quiz: predict each number, then compare
training.compare(RMSNorm.apply, RoPE.apply, SwiGLU.apply)

# %% [markdown] cell="manual" id="explain" points=3
# **Explain.** Insert the mistake of the last prediction into `rms_norm_backward_kernel`, run the code cells again, and
# report what happened. What do your three functions keep for the backward pass, and what do they recompute? Why do the
# losses of correct kernels drift away from those in float64?
#
# ### BEGIN SOLUTION
# With the mistake, the loss of step 0 is right, because it needs no gradient. The comparison fails at step 1: a wrong
# gradient changes the weights by far more than rounding does. RMSNorm keeps x and w, and recomputes the factor of each
# row. x (4 · M · N bytes) is also added as the residual, but autograd keeps nothing for an addition, so count these
# bytes. RoPE keeps only cos and sin, which the model keeps anyway: 0 bytes. SwiGLU keeps its input, 8 · M · N bytes,
# and recomputes sigmoid and silu. The losses drift because roundings change the gradients, and so the weights; each
# step starts from weights that already differ.
# ### END SOLUTION

# %% [markdown]
# **Next.** Replace PyTorch's attention by that of `18_flash_backward`, and the loss by `linear_cross_entropy` of
# `24_loss`. `linear_cross_entropy` returns the loss and the gradient of x: what is missing for the gradient of the
# output matrix?
#
# **In practice**, Liger Kernel replaces the same operations of Hugging Face models by Triton kernels.
#
# **Reading.** [Extending PyTorch](https://docs.pytorch.org/docs/stable/notes/extending.html).

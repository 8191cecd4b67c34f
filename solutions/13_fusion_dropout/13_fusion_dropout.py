# %% [markdown]
# # Dropout without a stored mask
#
# **You will** [fuse](../glossary.md#fusion) dropout and GELU into one kernel, and write its [backward
# pass](../glossary.md#backward-pass).
#
# **You will learn to**
# - generate the same random mask twice instead of storing it;
# - fuse a chain of elementwise operations in both passes.
#
# **You need** `06_elementwise_triton` and `13_fusion`. About 35 minutes. You need a GPU only to measure times.
#
# ## Recompute the mask
#
# Let h be the result of a linear layer's [matmul](../glossary.md#matmul). You compute out = dropout(gelu(h + bias)).
# With probability p, dropout sets an element to 0; otherwise it divides the element by 1 − p. For the backward pass,
# PyTorch stores a *mask*, a Boolean (1 byte) per element. But a [counter-based
# generator](../glossary.md#counter-based-generator) such as [Philox](../glossary.md#philox) has no state: it computes
# random numbers from two integers, *seed* and *counter*. So the backward pass can compute the same mask again. This
# takes more arithmetic, but saves 2 bytes of traffic per element: one byte written in the forward pass, one read in the
# backward pass.
#
# The given function `uniform` returns random numbers. Philox computes four numbers from each counter. Element (m, n) of
# the M × N matrix uses counter m · ⌈N/4⌉ + n // 4. Of the four numbers of this counter, it takes the one with index
# n % 4. So a program can compute the numbers of its elements from the seed, m, n and N. An element is **kept if its
# number is at least p**. GELU is approximated as in `06_elementwise_triton`: gelu(x) = x · sigmoid(2a) with
# a = √(2/π) · (x + 0.044715·x³).
#
# N and the strides are constants, as in `13_fusion`. Do not change the given line that computes `u`, one random number
# for each element.
#
# <details><summary>Hint for dropout_gelu</summary>Load <code>h</code> and <code>bias</code>, and convert both to fp32.
# Apply GELU. Then drop elements with <code>tl.where(u &gt;= p, …, 0.0)</code>.</details>
# <details><summary>Hint 1 for dropout_gelu_backward</summary>Input dy is the gradient of the loss with respect to out,
# and output dh is the gradient with respect to h. Dropout and GELU are elementwise, so dh = dy · f · gelu′(h + bias),
# with the derivative gelu′. The factor f is 1 / (1 − p) for a kept element, and otherwise 0.</details>
# <details><summary>Hint 2 for dropout_gelu_backward</summary>With x = h + bias and s = sigmoid(2a), gelu′(x) = s +
# 2·x·s·(1 − s)·√(2/π)·(1 + 3·0.044715·x²).</details>

# %% cell="setup"

# %% cell="given" id="uniform"
import math

import torch
import triton
import triton.language as tl

ROOT = tl.constexpr(math.sqrt(2 / math.pi))
CUBIC = tl.constexpr(0.044715)


@triton.jit
def uniform(seed, first, BLOCK: tl.constexpr):
    """Return BLOCK random numbers in [0, 1): four per counter, in order, starting with counter `first`."""
    r0, r1, r2, r3 = tl.rand4x(seed, first + tl.arange(0, BLOCK // 4))
    return tl.interleave(tl.interleave(r0, r2), tl.interleave(r1, r3))


def dropout_gelu(h, bias, p, seed, out, BLOCK_N=1024):
    M, N = h.shape
    grid = (M * triton.cdiv(N, BLOCK_N),)
    dropout_gelu_kernel[grid](h, bias, out, p, seed, N, h.stride(0), out.stride(0), BLOCK_N=BLOCK_N)


def dropout_gelu_backward(h, bias, dy, p, seed, dh, BLOCK_N=1024):
    M, N = h.shape
    grid, strides = (M * triton.cdiv(N, BLOCK_N),), (h.stride(0), dy.stride(0), dh.stride(0))
    dropout_gelu_backward_kernel[grid](h, bias, dy, dh, p, seed, N, *strides, BLOCK_N=BLOCK_N)


# %% cell="solution" id="dropout_gelu_kernels"
@triton.jit
def dropout_gelu_kernel(
    h_ptr, bias_ptr, out_ptr, p, seed, N: tl.constexpr, stride_hm: tl.constexpr, stride_om: tl.constexpr,
    BLOCK_N: tl.constexpr
):  # fmt: skip
    """out[m, n] = gelu(h[m, n] + bias[n]) / (1 - p) where the random number u[m, n] >= p, else 0.

    h_ptr     (M, N)  input; rows are stride_hm elements apart
    bias_ptr  (N,)    input
    out_ptr   (M, N)  output; rows are stride_om elements apart
    One program computes BLOCK_N columns of one row.
    """
    blocks = tl.cdiv(N, BLOCK_N)
    row, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    offs_n = block * BLOCK_N + tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    u = uniform(seed, row * tl.cdiv(N, 4) + block * (BLOCK_N // 4), BLOCK_N)
    ### BEGIN SOLUTION
    h = tl.load(h_ptr + row * stride_hm + offs_n, mask=mask_n).to(tl.float32)
    x = h + tl.load(bias_ptr + offs_n, mask=mask_n).to(tl.float32)
    a = ROOT * x * (1 + CUBIC * x * x)
    y = x / (1 + tl.exp(-2 * a))
    tl.store(out_ptr + row * stride_om + offs_n, tl.where(u >= p, y / (1 - p), 0.0), mask=mask_n)
    ### END SOLUTION


@triton.jit
def dropout_gelu_backward_kernel(
    h_ptr, bias_ptr, dy_ptr, dh_ptr, p, seed, N: tl.constexpr, stride_hm: tl.constexpr, stride_ym: tl.constexpr,
    stride_dm: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """dh[m, n] = dy[m, n] * gelu'(h[m, n] + bias[n]) / (1 - p) where the random number u[m, n] >= p, else 0.

    h_ptr     (M, N)  input; rows are stride_hm elements apart
    bias_ptr  (N,)    input
    dy_ptr    (M, N)  input; rows are stride_ym elements apart
    dh_ptr    (M, N)  output; rows are stride_dm elements apart
    One program computes BLOCK_N columns of one row.
    """
    blocks = tl.cdiv(N, BLOCK_N)
    row, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    offs_n = block * BLOCK_N + tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    u = uniform(seed, row * tl.cdiv(N, 4) + block * (BLOCK_N // 4), BLOCK_N)
    ### BEGIN SOLUTION
    h = tl.load(h_ptr + row * stride_hm + offs_n, mask=mask_n).to(tl.float32)
    x = h + tl.load(bias_ptr + offs_n, mask=mask_n).to(tl.float32)
    dy = tl.load(dy_ptr + row * stride_ym + offs_n, mask=mask_n).to(tl.float32)
    a = ROOT * x * (1 + CUBIC * x * x)
    s = 1 / (1 + tl.exp(-2 * a))
    slope = s + 2 * x * s * (1 - s) * ROOT * (1 + 3 * CUBIC * x * x)
    tl.store(dh_ptr + row * stride_dm + offs_n, tl.where(u >= p, dy * slope / (1 - p), 0.0), mask=mask_n)
    ### END SOLUTION


# %% cell="check" exercise="13_fusion_dropout/dropout_gelu"
lab.check("13_fusion_dropout/dropout_gelu")

# %% cell="check" exercise="13_fusion_dropout/dropout_gelu_backward"
lab.check("13_fusion_dropout/dropout_gelu_backward")

# %%
lab.claims("13_fusion_dropout")  # a two-minute quiz: predict each number, then compare
# Is the mask random, and is it the same in both passes? This test has 64 × 4096 elements and p = 0.25.
h, zero = torch.ones(64, 4096), torch.zeros(4096)
h, zero = (h.cuda(), zero.cuda()) if lab.device.has_gpu() else (h, zero)
out, dh = torch.empty_like(h), torch.empty_like(h)
dropout_gelu(h, zero, 0.25, 42, out)
dropout_gelu_backward(h, zero, torch.ones_like(h), 0.25, 42, dh)
kept = (out != 0).double()
spread = math.sqrt(0.25 * 0.75 / h.numel())
rows = kept.mean(1)
print(f"kept {kept.mean():.4f}, expected 0.75 ± {3 * spread:.4f}; single rows {rows.min():.3f} to {rows.max():.3f}")
for name, other in (("its left neighbor", kept.roll(1, 1)), ("the row above", kept.roll(1, 0))):
    print(f"correlation with {name}: {((kept - 0.75) * (other - 0.75)).mean() / 0.1875:+.4f}, expected near 0")
print("the same mask in both passes:", torch.equal(out != 0, dh != 0))
for name in ("dropout_gelu", "dropout_gelu_backward") if lab.device.has_gpu() else []:
    print(lab.benchmark(f"13_fusion_dropout/{name}") or "")

# %% [markdown]
# On an H200, random numbers are the bottleneck. Run one after the other, the two kernels reach only
# {claim: dropout_h200_share} of the [bandwidth](../glossary.md#bandwidth) that a copy kernel reaches.
#
# **Extra.** One Philox call generates 128 bits, 32 for each of four elements. Use 16 bits per element: one call is then
# enough for eight elements, so the mask takes half the arithmetic. Compare the times. Also try `tl.rand` instead of
# `uniform`: `tl.rand` makes one call per element.
#
# **In practice**, `torch.compile` fuses this chain too, but may store the mask. Write your own kernel if the mask must
# not be stored, or if the chain includes a matmul or a [reduction](../glossary.md#reduction) that `torch.compile` does
# not fuse.
#
# **Reading.** [Salmon and others, Parallel random numbers: as easy as 1, 2, 3](https://doi.org/10.1145/2063384.2063405)
# introduces Philox.

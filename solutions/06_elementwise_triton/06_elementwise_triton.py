# %% [markdown]
# # Write elementwise kernels in Triton
#
# **You will** write four kernels: add two vectors, GeLU, its backward pass, and `(x + bias) · scale` over the rows of a
# matrix.
#
# **You will learn to**
# - turn a formula into one pass over memory: program id, offsets, mask, load, compute, store;
# - predict the time of such a kernel from its bytes, and say what fusion saves;
# - keep `exp` from overflowing, and compute in fp32 what is stored in fp16;
# - step through rows by their stride.
#
# **You need** `00_start`, and the chain rule for the backward pass.
#
# About 75 minutes. Works without a GPU; only times need one.

# %% cell="setup"

# %% cell="given"
import math

import torch
import triton
import triton.language as tl

SQRT_2_OVER_PI = tl.constexpr(math.sqrt(2 / math.pi))  # a kernel reads a global only if it is a constexpr
CUBIC = tl.constexpr(0.044715)


def gelu_reference(x):
    """The tanh form of GeLU as PyTorch runs it: every line is a kernel of its own."""
    u = x * x * x  # two kernels, reads 3n, writes 2n
    u = x + 0.044715 * u  # two kernels, reads 3n, writes 2n
    t = torch.tanh(0.7978845608 * u)  # two kernels, reads 2n, writes 2n
    return (0.5 * x) * (1.0 + t)  # three kernels, reads 4n, writes 3n


# %% [markdown]
# Together `gelu_reference` reads 12n elements and writes 9n, although its result needs n read and n written. Everything
# between the first load and the last store can stay in registers: that is *fusion*, and you will do it in part 2.
#
# ## 1 Add two vectors
#
# **Predict.** Elementwise kernels wait for memory, so bytes tell their time. How many bytes must `out = x + y` move
# between memory and chip at least, for vectors of `n` elements of `itemsize` bytes each?


# %% cell="solution" id="add_bytes"
def add_bytes(n, itemsize):
    """Bytes that out = x + y must read and write."""
    ### BEGIN SOLUTION
    return 3 * n * itemsize
    ### END SOLUTION


# %% cell="check" exercise="06_elementwise_triton/add_bytes"
lab.check("06_elementwise_triton/add_bytes")


# %% cell="given"
# A neighbour of your kernel, finished: it turns a vector round. Look at what program 2 does.
@triton.jit
def reverse_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out[i] = x[n - 1 - i] for i < n; one program writes BLOCK elements."""
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, tl.load(x_ptr + n - 1 - offs, mask=mask), mask=mask)


def reverse(x, out):
    n = x.numel()
    reverse_kernel[(triton.cdiv(n, 8),)](x, out, n, BLOCK=8)


lab.access_map(reverse, torch.arange(20.0), torch.empty(20), title="reverse: 20 elements in blocks of 8")

# %% [markdown]
# Your kernel: `out[i] = x[i] + y[i]`. One program computes `BLOCK` elements, from `pid · BLOCK` on.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_ptr`, `y_ptr` | (n,) | inputs |
# | `out_ptr` | (n,) | output |
# | `n` | number | elements, any number from 1 on |
# | `BLOCK` | constant | elements of one program, a power of two |
#
# <details><summary>Hint 1</summary>The order is always the same: who am I, which elements are mine, which of them
# exist, load, compute, store.</details>
# <details><summary>Hint 2</summary>The first three steps are those of <code>reverse_kernel</code>. Yours reads at the
# place where it writes.</details>
# <details><summary>Hint 3</summary>Each of the two loads and the store gets the same offsets and the same
# mask.</details>


# %% cell="solution" id="vector_add_kernel"
@triton.jit
def vector_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Add two vectors.

    out[i] = x[i] + y[i] for i < n

    x_ptr, y_ptr  (n,)  inputs
    out_ptr       (n,)  output
    One program computes BLOCK elements, from pid * BLOCK on.
    """
    ### BEGIN SOLUTION
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = tl.load(y_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, x + y, mask=mask)
    ### END SOLUTION


# %% cell="given" id="vector_add"
def vector_add(x, y, out, BLOCK=1024):
    n = x.numel()
    vector_add_kernel[(triton.cdiv(n, BLOCK),)](x, y, out, n, BLOCK=BLOCK)


def add_in_eights(x, y, out):
    vector_add(x, y, out, BLOCK=8)


lab.tiny("06_elementwise_triton/vector_add")

# %% cell="check" exercise="06_elementwise_triton/vector_add"
lab.check("06_elementwise_triton/vector_add")

# %%
print(lab.benchmark("06_elementwise_triton/vector_add") or "")  # "copy" moves as many bytes: it is the roof
lab.access_map(add_in_eights, torch.arange(20.0), torch.ones(20), torch.empty(20), title="your vector add")

# %% [markdown]
# When a check fails:
#
# | what it says | a common cause |
# |---|---|
# | `tail-unmasked` | one of the loads has no mask, or `<=` for `<` |
# | `first-block-only` | `offs` without `pid * BLOCK` |
# | `overflow` | `exp` of a large number became inf, and inf / inf or inf · 0 is NaN |
# | `precision` | fp16 values were not converted to fp32 right after the load |
# | `wrong-stride` | rows were taken to lie directly behind each other |
#
# ## 2 GeLU in one pass
#
# $y = \frac{x}{2}\,(1 + \tanh a)$ with $a = \sqrt{2/\pi}\,(x + 0.044715\,x^3)$, computed in fp32 also where x is fp16.
#
# Triton has no `tl.tanh` (CUDA's own, in `libdevice`, is missing in the interpreter). It has `tl.exp` and `tl.sigmoid`,
# and these are enough; but the schoolbook $(e^{2a} - 1) / (e^{2a} + 1)$ is inf / inf from a ≈ 44 on.
#
# <details><summary>Hint 1</summary>tanh a = 2·sigmoid(2a) − 1. What does (1 + tanh a) / 2 become?</details>
# <details><summary>Hint 2</summary>The whole formula is x · sigmoid(2a).</details>
# <details><summary>Hint 3</summary>sigmoid(z) = 1 / (1 + exp(−z)): if the exponential overflows, the quotient is 0, and
# that is right.</details>


# %% cell="solution" id="gelu_kernel"
@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """GeLU, tanh form.

    out[i] = x[i] / 2 * (1 + tanh(a)),  a = sqrt(2 / pi) * (x[i] + 0.044715 * x[i]^3)

    x_ptr    (n,)  input
    out_ptr  (n,)  output
    One program computes BLOCK elements, from pid * BLOCK on.
    """
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    ### BEGIN SOLUTION
    a = SQRT_2_OVER_PI * (x + CUBIC * x * x * x)
    # x * sigmoid(2a): where exp overflows the quotient is 0, never NaN
    y = x / (1 + tl.exp(-2 * a))
    tl.store(out_ptr + offs, y, mask=mask)
    ### END SOLUTION


# %% cell="given" id="gelu"
def gelu(x, out, BLOCK=1024):
    n = x.numel()
    gelu_kernel[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK)


lab.tiny("06_elementwise_triton/gelu")

# %% cell="check" exercise="06_elementwise_triton/gelu"
lab.check("06_elementwise_triton/gelu")

# %% [markdown]
# ## 3 GeLU backward
#
# Given x and the gradient dy of the loss with respect to y, write $dx = dy \cdot \mathrm{d}y/\mathrm{d}x$. Nothing is
# kept from the forward pass: computing tanh again is cheaper than reading it back.
#
# <details><summary>Hint 1</summary>y is a product of x/2 and (1 + t), and t depends on x: two terms.</details>
# <details><summary>Hint 2</summary>dt/da = 1 − t², and da/dx = √(2/π)·(1 + 3·0.044715·x²).</details>
# <details><summary>Hint 3</summary>dy · [ (1 + t)/2 + x/2 · (1 − t²) · da/dx ]. With s = sigmoid(2a) this is
# dy · [ s + 2·x·s·(1 − s) · da/dx ].</details>


# %% cell="solution" id="gelu_backward_kernel"
@triton.jit
def gelu_backward_kernel(x_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    """Gradient of GeLU, tanh form.

    dx[i] = dy[i] * d gelu(x[i]) / d x[i]

    x_ptr, dy_ptr  (n,)  inputs
    dx_ptr         (n,)  output
    One program computes BLOCK elements, from pid * BLOCK on.
    """
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    dy = tl.load(dy_ptr + offs, mask=mask).to(tl.float32)
    ### BEGIN SOLUTION
    a = SQRT_2_OVER_PI * (x + CUBIC * x * x * x)
    slope = SQRT_2_OVER_PI * (1 + 3 * CUBIC * x * x)
    # t = 2s - 1, so (1 + t) / 2 = s and (1 - t^2) / 2 = 2s(1 - s)
    s = 1 / (1 + tl.exp(-2 * a))
    dx = dy * (s + 2 * x * s * (1 - s) * slope)
    tl.store(dx_ptr + offs, dx, mask=mask)
    ### END SOLUTION


# %% cell="given" id="gelu_backward"
def gelu_backward(x, dy, dx, BLOCK=1024):
    n = x.numel()
    gelu_backward_kernel[(triton.cdiv(n, BLOCK),)](x, dy, dx, n, BLOCK=BLOCK)


lab.tiny("06_elementwise_triton/gelu_backward")

# %% cell="check" exercise="06_elementwise_triton/gelu_backward"
lab.check("06_elementwise_triton/gelu_backward")

# %% [markdown]
# ## 4 Rows: (x + bias) · scale
#
# `out[m, n] = (x[m, n] + bias[n]) · scale[n]`, in fp32. One program computes `BLOCK_N` columns of one row, and programs
# count through the blocks of a row before they go on to the next: neighbours in the grid work on neighbours in memory.
# Rows may lie further apart than they are long (a slice of a wider matrix), so element (m, n) of x is at
# `x_ptr + m·stride_xm + n`.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_ptr`, `out_ptr` | (M, N) | input, output; rows `stride_xm` and `stride_om` elements apart |
# | `bias_ptr`, `scale_ptr` | (N,) | inputs, the same for every row |
#
# <details><summary>Hint 1</summary>The mask concerns columns only: every row that has a program exists.</details>
# <details><summary>Hint 2</summary>x takes row and column, bias and scale the column alone.</details>
# <details><summary>Hint 3</summary>In fp16, adding rounds once and multiplying again. Convert after each load; the
# store converts back by itself.</details>


# %% cell="solution" id="bias_scale_kernel"
@triton.jit
def bias_scale_kernel(x_ptr, bias_ptr, scale_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    """Add a bias to each column, then scale it.

    out[m, n] = (x[m, n] + bias[n]) * scale[n]

    x_ptr                (M, N)  input, rows stride_xm apart
    bias_ptr, scale_ptr  (N,)    inputs
    out_ptr              (M, N)  output, rows stride_om apart
    One program computes BLOCK_N columns of one row.
    """
    pid = tl.program_id(0)
    blocks = tl.cdiv(N, BLOCK_N)
    row = pid // blocks
    offs_n = pid % blocks * BLOCK_N + tl.arange(0, BLOCK_N)
    ### BEGIN SOLUTION
    mask_n = offs_n < N
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n).to(tl.float32)
    bias = tl.load(bias_ptr + offs_n, mask=mask_n).to(tl.float32)
    scale = tl.load(scale_ptr + offs_n, mask=mask_n).to(tl.float32)
    tl.store(out_ptr + row * stride_om + offs_n, (x + bias) * scale, mask=mask_n)
    ### END SOLUTION


# %% cell="given" id="bias_scale"
def bias_scale(x, bias, scale, out, BLOCK_N=1024):
    M, N = x.shape
    grid = (M * triton.cdiv(N, BLOCK_N),)
    bias_scale_kernel[grid](x, bias, scale, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N)


lab.tiny("06_elementwise_triton/bias_scale")

# %% cell="check" exercise="06_elementwise_triton/bias_scale"
lab.check("06_elementwise_triton/bias_scale")

# %% [markdown]
# ## 5 Predict, then measure
#
# `library` is PyTorch: for GeLU its own fused kernel, for bias and scale two kernels after each other. Write down,
# before you run the cell, which of the three you expect to beat the library, and by what factor. (Counts without a GPU
# are of what programs ask for. `bias_scale` asks for bias and scale again in every row; a GPU answers that from its L2
# cache, not from memory.)

# %%
for name in ("gelu", "gelu_backward", "bias_scale"):
    print(lab.benchmark(f"06_elementwise_triton/{name}") or "")

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Compare with your prediction, or without a GPU with this measurement on an H200, 2²⁷ fp32 elements:
# `gelu_reference` 2.64 ms, PyTorch's fused GeLU 0.257 ms. Which factor do the bytes predict, and what may be missing?
#
# ### BEGIN SOLUTION
# The reference moves 21n elements, the fused kernel 2n, so bytes predict a factor of 10.5. Measured is 10.3: both run
# close to the memory's bandwidth, and arithmetic and launches are too cheap to show at this size. What is left over is
# the slightly different share of the bandwidth that kernels with one, two or three arrays reach.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** Try `BLOCK` 256 and 4096 and other `num_warps` in the launchers: what changes, and why so little?
# Let a program of `bias_scale` do several rows, so that it reads bias and scale once. Or let its programs count down
# the rows first: on an H200 that costs 5 % (3969 for 4192 GB/s at 2¹⁴ × 2¹³). On a GPU,
# `print(vector_add_kernel[grid](...).asm["ptx"])` shows the code: look for `ld.global.v4`, four floats in one
# instruction. It is there when the pointers are aligned to 16 bytes, and gone for `x[1:]`.
#
# **In practice** `torch.compile` writes such kernels by itself; hand-written ones pay off where it does not see the
# chance, as across a matmul's epilogue.
#
# **Reading.** [Hendrycks and Gimpel, Gaussian Error Linear Units](https://arxiv.org/abs/1606.08415): both forms.
# [Triton's fused softmax](https://triton-lang.org/main/getting-started/tutorials/02-fused-softmax.html): the next step,
# a reduction in the row.

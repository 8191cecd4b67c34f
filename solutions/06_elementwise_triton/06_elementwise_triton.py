# %% [markdown]
# # Write elementwise kernels in Triton
#
# **You will** write four [elementwise kernels](../glossary.md#elementwise-kernel). They compute the sum of two vectors;
# GeLU, an [activation function](../glossary.md#activation-function) of neural networks; the gradient of GeLU; and `(x +
# bias) · scale` for each row of a matrix.
#
# **You will learn to**
# - turn a formula into a [kernel](../glossary.md#kernel): [program ID](../glossary.md#program-id),
#   [offsets](../glossary.md#offset), [mask](../glossary.md#mask), load, compute, store;
# - predict the time of an elementwise kernel from the bytes that it moves, and predict how much time
#   [fusion](../glossary.md#fusion) saves;
# - avoid an [overflow](../glossary.md#overflow) of `exp`, and compute in [fp32](../glossary.md#fp32) when the arrays
#   are [fp16](../glossary.md#fp16);
# - address the rows of a matrix by their [stride](../glossary.md#stride).
#
# **You need** `00_start`, and the chain rule of calculus for part 3.
#
# About 75 minutes. You need a GPU only to measure times.
#
# ## 1 Add two vectors
#
# **Predict.** Memory bandwidth limits elementwise kernels, so the bytes that they move determine their time. Write
# `add_bytes`: what is the smallest number of bytes that a kernel for `out = x + y` can move? Each vector has `n`
# elements of `itemsize` bytes.

# %% cell="setup"


# %% cell="solution" id="add_bytes"
def add_bytes(n, itemsize):
    """Return the bytes that out = x + y must read and write in memory."""
    ### BEGIN SOLUTION
    return 3 * n * itemsize
    ### END SOLUTION


# %% cell="check" exercise="06_elementwise_triton/add_bytes"
lab.check("06_elementwise_triton/add_bytes")

# %% [markdown]
# **Your kernel:** `out[i] = x[i] + y[i]`. One [program](../glossary.md#program) computes `BLOCK` elements, starting at
# `pid · BLOCK`. The cell below runs `reverse_kernel`, a similar kernel that reverses a vector, and draws which elements
# each program accesses. At which offsets does the mask prevent accesses in program 2?
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_ptr`, `y_ptr` | (n,) | inputs |
# | `out_ptr` | (n,) | output |
# | `n` | scalar | number of elements, at least 1 |
# | `BLOCK` | constant | elements per program, a power of two |
#
# <details><summary>Hint 1</summary>The order is always the same: program ID, offsets, mask, load, compute,
# store.</details>
# <details><summary>Hint 2</summary>The first three steps are those of <code>reverse_kernel</code>. Your kernel loads
# and stores at the same offsets.</details>
# <details><summary>Hint 3</summary>Pass <code>offs</code> and <code>mask</code> to both loads and to the
# store.</details>

# %% cell="given"
import math

import torch
import triton
import triton.language as tl

SQRT_2_OVER_PI = tl.constexpr(math.sqrt(2 / math.pi))  # kernels can read only globals that are constexpr
CUBIC = tl.constexpr(0.044715)


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


# The launchers of the four kernels that you will write.
def vector_add(x, y, out, BLOCK=1024):
    n = x.numel()
    vector_add_kernel[(triton.cdiv(n, BLOCK),)](x, y, out, n, BLOCK=BLOCK)


def gelu(x, out, BLOCK=1024):
    n = x.numel()
    gelu_kernel[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK)


def gelu_backward(x, dy, dx, BLOCK=1024):
    n = x.numel()
    gelu_backward_kernel[(triton.cdiv(n, BLOCK),)](x, dy, dx, n, BLOCK=BLOCK)


def bias_scale(x, bias, scale, out, BLOCK_N=1024):
    M, N = x.shape
    grid = (M * triton.cdiv(N, BLOCK_N),)
    bias_scale_kernel[grid](x, bias, scale, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N)


lab.access_map(reverse, torch.arange(20.0), torch.empty(20), title="reverse: 20 elements in blocks of 8")


# %% cell="solution" id="vector_add_kernel"
@triton.jit
def vector_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Add two vectors.

    out[i] = x[i] + y[i] for i < n

    x_ptr, y_ptr  (n,)  inputs
    out_ptr       (n,)  output
    One program computes BLOCK elements, starting at pid * BLOCK.
    """
    ### BEGIN SOLUTION
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = tl.load(y_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, x + y, mask=mask)
    ### END SOLUTION


# %% cell="check" exercise="06_elementwise_triton/vector_add"
lab.tiny("06_elementwise_triton/vector_add")
lab.check("06_elementwise_triton/vector_add")

# %% [markdown]
# This table is for all kernels of this unit:
#
# | the check reports | common cause |
# |---|---|
# | `tail-unmasked` | a load or a store has no mask, or the mask uses `<=` instead of `<` |
# | `first-block-only` | `offs` lacks `pid * BLOCK` |
# | `overflow` (GeLU) | `exp` of a large number gave inf, and the formula contains inf / inf or inf · 0 |
# | `precision` | fp16 values were not converted to fp32 right after the load |
# | `wrong-stride` (part 4) | the kernel assumes that the rows follow each other without gaps |
#
# ## 2 GeLU in one kernel
#
# Compute $y = \frac{x}{2}\,(1 + \tanh a)$ with $a = \sqrt{2/\pi}\,(x + 0.044715\,x^3)$, in fp32 even if x is fp16.
#
# In PyTorch, each operation launches its own kernel. The comments show how many elements these kernels read and write
# if x has n elements:
#
# ```python
# u = x * x * x                    # two kernels,   reads 3n (x * x reads x once), writes 2n
# u = x + 0.044715 * u             # two kernels,   reads 3n, writes 2n
# t = torch.tanh(0.7978845608 * u) # two kernels,   reads 2n, writes 2n
# y = (0.5 * x) * (1.0 + t)        # three kernels, reads 4n, writes 3n
# ```
#
# Together these kernels read 12n elements and write 9n elements. One kernel for all operations reads only n elements
# and writes n: its intermediate results stay in [registers](../glossary.md#register). This is *fusion*.
#
# Triton has no `tl.tanh`. (NVIDIA's `libdevice` library has a tanh, but the [interpreter](../glossary.md#interpreter)
# cannot call it.) Use `tl.exp`, or `tl.sigmoid` with sigmoid(z) = 1 / (1 + exp(−z)). The textbook formula $\tanh a =
# (e^{2a} - 1) / (e^{2a} + 1)$ does not work: if $a$ is larger than about {claim: gelu_overflow}, $e^{2a}$ overflows,
# and inf / inf is [NaN](../glossary.md#nan).
#
# <details><summary>Hint 1</summary>tanh a = 2·sigmoid(2a) − 1. So which simple expression equals (1 + tanh a) /
# 2?</details>
# <details><summary>Hint 2</summary>The whole formula is y = x · sigmoid(2a).</details>
# <details><summary>Hint 3</summary>If exp(−z) overflows to inf, sigmoid(z) is 0, which is correct.</details>


# %% cell="solution" id="gelu_kernel"
@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """GeLU, tanh form.

    out[i] = x[i] / 2 * (1 + tanh(a)),  a = sqrt(2 / pi) * (x[i] + 0.044715 * x[i]^3)

    x_ptr    (n,)  input
    out_ptr  (n,)  output
    One program computes BLOCK elements, starting at pid * BLOCK.
    """
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    ### BEGIN SOLUTION
    a = SQRT_2_OVER_PI * (x + CUBIC * x * x * x)
    # x * sigmoid(2a): where exp overflows, the quotient is 0, never NaN
    y = x / (1 + tl.exp(-2 * a))
    tl.store(out_ptr + offs, y, mask=mask)
    ### END SOLUTION


# %% cell="check" exercise="06_elementwise_triton/gelu"
lab.tiny("06_elementwise_triton/gelu")
lab.check("06_elementwise_triton/gelu")

# %% [markdown]
# ## 3 GeLU backward
#
# Let y be the result of GeLU, and `dy` the gradient of the loss (the number that training minimizes) with respect to y.
# Given x and `dy`, compute the gradient with respect to x: `dx = dy · gelu'(x)`, where gelu' is the derivative of GeLU.
# The kernel computes $\tanh a$ again, because that is cheaper than reading a stored result of the [forward
# pass](../glossary.md#forward-pass) from memory.
#
# <details><summary>Hint 1</summary>Let t be tanh a. Then y is the product of x/2 and 1 + t. Both factors depend on x,
# so the product rule gives two terms.</details>
# <details><summary>Hint 2</summary>dt/da = 1 − t², and da/dx = √(2/π)·(1 + 3·0.044715·x²).</details>
# <details><summary>Hint 3</summary>dx = dy · [ (1 + t)/2 + x/2 · (1 − t²) · da/dx ]. With s = sigmoid(2a), dx = dy · [
# s + 2·x·s·(1 − s) · da/dx ].</details>


# %% cell="solution" id="gelu_backward_kernel"
@triton.jit
def gelu_backward_kernel(x_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    """Gradient of GeLU, tanh form.

    dx[i] = dy[i] * gelu'(x[i]), where gelu' is the derivative of gelu

    x_ptr, dy_ptr  (n,)  inputs
    dx_ptr         (n,)  output
    One program computes BLOCK elements, starting at pid * BLOCK.
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


# %% cell="check" exercise="06_elementwise_triton/gelu_backward"
lab.tiny("06_elementwise_triton/gelu_backward")
lab.check("06_elementwise_triton/gelu_backward")

# %% [markdown]
# ## 4 Rows: (x + bias) · scale
#
# Compute `out[m, n] = (x[m, n] + bias[n]) · scale[n]` in fp32. One program computes `BLOCK_N` of the `N` columns of one
# row. Consecutive programs process the blocks of one row, then those of the next row, so they access neighboring
# memory. If `x` is a slice of a wider matrix, there are other elements between the rows of `x`: each row starts
# `stride_xm` elements after the previous row. So element (m, n) of `x` is at address `x_ptr + m·stride_xm + n`.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_ptr` | (M, N) | input |
# | `out_ptr` | (M, N) | output |
# | `stride_xm` | scalar | distance from one row of x to the next row of x, in elements |
# | `stride_om` | scalar | distance from one row of out to the next row of out, in elements |
# | `bias_ptr`, `scale_ptr` | (N,) | inputs, the same for every row |
#
# <details><summary>Hint 1</summary>Only the columns need a mask, because every program's row exists.</details>
# <details><summary>Hint 2</summary><code>x</code> has a row and a column index; <code>bias</code> and
# <code>scale</code> have only a column index.</details>
# <details><summary>Hint 3</summary>In fp16, the addition and the multiplication would each round. So convert to fp32
# after each load. The store converts the result to the type of <code>out</code>.</details>
#
# **Predict, then measure.** The cell after the check times your kernels and PyTorch's (`library` in the output).
# PyTorch has one kernel for GeLU and one for its gradient, but needs two for bias and scale. Which of your kernels
# `gelu`, `gelu_backward` and `bias_scale` will be faster than PyTorch's, and by what factor?
#
# Without a GPU, the cell prints the bytes that the programs request. For `bias_scale`, these are almost twice the bytes
# that must move, because the programs of every row request `bias` and `scale` again. A GPU serves these requests from
# its [L2 cache](../glossary.md#l2-cache), not from memory.


# %% cell="solution" id="bias_scale_kernel"
@triton.jit
def bias_scale_kernel(x_ptr, bias_ptr, scale_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    """Add a bias to each column, then multiply the column by a scale.

    out[m, n] = (x[m, n] + bias[n]) * scale[n]

    x_ptr                (M, N)  input; row m starts at m * stride_xm
    bias_ptr, scale_ptr  (N,)    inputs
    out_ptr              (M, N)  output; row m starts at m * stride_om
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


# %% cell="check" exercise="06_elementwise_triton/bias_scale"
lab.tiny("06_elementwise_triton/bias_scale")
lab.check("06_elementwise_triton/bias_scale")


# %%
from labutils import compiled


def add_in_eights(x, y, out):
    vector_add(x, y, out, BLOCK=8)


lab.claims("06_elementwise_triton")  # a two-minute quiz: predict each number, then compare
for name in ("vector_add", "gelu", "gelu_backward", "bias_scale"):
    print(lab.benchmark(f"06_elementwise_triton/{name}") or "")  # "copy" is a copy of as many bytes as the kernel moves
display(lab.access_map(add_in_eights, torch.arange(20.0), torch.ones(20), torch.empty(20), title="your vector add"))
x = torch.ones(4096, device="cuda" if lab.device.has_gpu() else "cpu")
compiled.stages(vector_add_kernel, x, x, x, 4096, BLOCK=1024)  # your vector add in four stages of compilation

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** On an [H200](../glossary.md#hopper) with 2²⁷ fp32 elements, GeLU takes {claim: unfused_gelu} with the
# nine kernels of part 2, and {claim: built_in_gelu} with PyTorch's fused kernel. What speedup do the bytes predict?
# Compare your prediction with the measured speedup: what might the prediction omit?
#
# ### BEGIN SOLUTION
# The unfused version moves 21n elements, the fused kernel 2n, so bytes predict a factor of 10.5. The measured factor is
# {claim: fused_speedup}. Both versions run close to the memory's bandwidth, and arithmetic and launches are too cheap
# to matter at this size. The small difference remains because kernels with two and three arrays reach slightly
# different shares of the bandwidth.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** Four experiments:
#
# - In the launchers, try `BLOCK` 256 and 4096. Also pass `num_warps=8`: a program then has 8
#   [warps](../glossary.md#warp) instead of 4. How does the time change? Why does it change so little?
# - Declare `N` and the strides of `bias_scale` as constants (`N: tl.constexpr`). For fp16 rows of 5000 columns, this
#   raises the bandwidth on an H200 from {claim: narrow_bias_scale} to {claim: wide_bias_scale}. `11_softmax` explains
#   why.
# - Let one program of `bias_scale` process several rows, so that it reads bias and scale only once.
# - Let consecutive programs of `bias_scale` process the same columns of consecutive rows. On an H200, for a matrix of
#   2¹⁴ × 2¹³ elements, this order lowers the bandwidth by {claim: rows_first_loss}, from {claim: columns_first} to
#   {claim: rows_first} GB/s. Why?
#
# **Four stages.** The last code cell shows the loads of your vector add in four stages of compilation. Triton IR
# (intermediate representation) still computes with blocks. Triton GPU IR adds [layouts](../glossary.md#layout), which
# assign elements to threads: `sizePerThread = [4]` means that each thread holds four adjacent elements. In
# [PTX](../glossary.md#ptx) a thread loads the four elements with one instruction, `ld.global.v4`, and in machine code
# ([SASS](../glossary.md#sass)) with `LDG.E.128`. This works because the addresses are multiples of 16 bytes. Pass
# `x[1:]` in place of the first `x` to `compiled.stages`: what changes?
#
# **In practice** [`torch.compile`](../glossary.md#torchcompile) generates elementwise kernels. Hand-written kernels
# help where `torch.compile` does not fuse. For example, by default it does not fuse operations into the
# [epilogue](../glossary.md#epilogue) of a [matmul](../glossary.md#matmul).
#
# **Reading.** [Hendrycks and Gimpel, Gaussian Error Linear Units](https://arxiv.org/abs/1606.08415) defines GeLU and
# its tanh form. [Triton's fused softmax](https://triton-lang.org/main/getting-started/tutorials/02-fused-softmax.html):
# the next step, a [reduction](../glossary.md#reduction) over each row.

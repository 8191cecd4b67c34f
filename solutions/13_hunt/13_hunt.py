# %% [markdown]
# # Bug hunt: online softmax and fused kernels
#
# **You will** find one bug in each of four fused kernels. First the kernels show only what they do: cases that fail,
# values, counts. You name line and cause, then you fix the kernel.
#
# **You will learn to**
# - find the length of a row from which a result is wrong;
# - recognize a difference of two large numbers;
# - test what random numbers have in common.
#
# **You need** `12_online_softmax`, `13_fusion` and `13_fusion_dropout`. About 60 minutes. You need no GPU.
#
# Do not run the checks of the last section before you have named the bugs: they name causes, too.

# %% cell="setup"

# %% cell="given" id="launchers"
import math

import torch
import triton
import triton.language as tl


def online_softmax(x, out, BLOCK_N=4096):
    M, N = x.shape
    online_softmax_kernel[(M,)](x, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N, num_warps=8)


LAYER_EPS = tl.constexpr(1e-5)


def warps_for(N):
    """Warps of a program with one row of N elements, a power of two: tuned on an H200."""
    if N <= 4096:
        return min(triton.cdiv(triton.next_power_of_2(N), 512), 8)
    return min(triton.next_power_of_2(N // 1024 + 1) // 2, 32)


def options_for(N):
    """Tile size and launch options for rows of N elements."""
    return dict(BLOCK_N=triton.next_power_of_2(N), num_warps=warps_for(N))


def layer_norm(x, w, b, out):
    M, N = x.shape
    layer_norm_kernel[(M,)](x, w, b, out, N, x.stride(0), out.stride(0), **options_for(N))


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


@triton.jit
def part_stats(x):
    """Return (m, l) of x, the elements of one part. Elements past the end of the row are -inf."""
    m = tl.max(x)
    shift = tl.where(m == -float("inf"), 0.0, m)
    return m, tl.sum(tl.exp(x - shift))


@triton.jit
def merged_stats(m, l):
    """Return (m, l) of a whole row. m and l have one element per part; past the last part, m is -inf and l is 0."""
    largest = tl.max(m)
    shift = tl.where(largest == -float("inf"), 0.0, largest)
    return largest, tl.sum(l * tl.exp(m - shift))


@triton.jit
def normalize_kernel(
    x_ptr, m_ptr, l_ptr, out_ptr, lse_ptr, N, parts, stride_xm, stride_om, BLOCK: tl.constexpr, BLOCK_P: tl.constexpr
):
    """Store exp(x - m) / l of one part of one row, with m and l of the whole row. Store lse[row] = m + log(l)."""
    row = (tl.program_id(0) // parts).to(tl.int64)
    part = tl.program_id(0) % parts
    offs_n = part * BLOCK + tl.arange(0, BLOCK)
    offs_p = tl.arange(0, BLOCK_P)
    ms = tl.load(m_ptr + row * parts + offs_p, mask=offs_p < parts, other=-float("inf"))
    ls = tl.load(l_ptr + row * parts + offs_p, mask=offs_p < parts, other=0.0)
    m, l = merged_stats(ms, ls)
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * stride_om + offs_n, tl.exp(x - m) / l, mask=offs_n < N)
    if part == 0:
        tl.store(lse_ptr + row, m + tl.log(l))


def split_softmax(x, out, lse, BLOCK=8192):
    M, N = x.shape
    parts = triton.cdiv(N, BLOCK)
    m, l = torch.empty(2, M, parts, dtype=torch.float32, device=x.device)
    grid, sizes = (M * parts,), dict(BLOCK=BLOCK, num_warps=16)
    stats_kernel[grid](x, m, l, N, parts, x.stride(0), **sizes)
    BLOCK_P = max(16, triton.next_power_of_2(parts))
    normalize_kernel[grid](x, m, l, out, lse, N, parts, x.stride(0), out.stride(0), BLOCK_P=BLOCK_P, **sizes)


# %% [markdown]
# ## 1 Softmax in blocks
#
# The kernel reads a row in blocks and keeps the maximum m and the sum l of what it has read. For rows of one block, its
# results are right.


# %% cell="hunt" id="online_softmax_kernel" exercise="13_hunt/online_softmax"
@triton.jit
def online_softmax_kernel(x_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    """Softmax of each row, in blocks.

    out[m, n] = exp(x[m, n] - max) / sum_k exp(x[m, k] - max), where max = max_k x[m, k]

    x_ptr    (M, N)  input; rows are stride_xm elements apart
    out_ptr  (M, N)  output; rows are stride_om elements apart
    One program computes one row, m = pid.
    """
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_xm
    out_ptr += row * stride_om
    m = tl.full((), -float("inf"), tl.float32)
    l = tl.full((), 0.0, tl.float32)
    ### BEGIN SOLUTION
    for start in tl.range(0, N, BLOCK_N, num_stages=3):
        offs_n = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + offs_n, mask=offs_n < N, other=-float("inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        l = l * tl.exp(m - shift) + tl.sum(tl.exp(x - shift))
        m = m_new
    for start in tl.range(0, N, BLOCK_N, num_stages=3):
        offs_n = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
        tl.store(out_ptr + offs_n, tl.exp(x - m) / l, mask=offs_n < N)
    ### END SOLUTION


# %%
lab.evidence("13_hunt/online_softmax")

# %% [markdown]
# ## 2 LayerNorm
#
# The kernel passes its test: normally distributed numbers, compared with `torch.nn.functional.layer_norm`. In a
# network, one of the inputs has a large mean.


# %% cell="hunt" id="layer_norm_kernel" exercise="13_hunt/layer_norm"
@triton.jit
def layer_norm_kernel(
    x_ptr, w_ptr, b_ptr, out_ptr, N: tl.constexpr, stride_xm: tl.constexpr, stride_om: tl.constexpr,
    BLOCK_N: tl.constexpr
):  # fmt: skip
    """Normalize each row to mean 0 and variance 1, then multiply by the weight and add the bias.

    out[m, n] = (x[m, n] - mean) * w[n] / sqrt(sum_k (x[m, k] - mean)^2 / N + LAYER_EPS) + b[n]

    x_ptr         (M, N)  input; rows are stride_xm elements apart
    w_ptr         (N,)    input: weight
    b_ptr         (N,)    input: bias
    out_ptr       (M, N)  output; rows are stride_om elements apart
    One program computes one row, m = pid.
    """
    row = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    ### BEGIN SOLUTION
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    centered = tl.where(mask_n, x - tl.sum(x) / N, 0.0)
    scale = tl.rsqrt(tl.sum(centered * centered) / N + LAYER_EPS)
    w = tl.load(w_ptr + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * stride_om + offs_n, centered * scale * w + b, mask=mask_n)
    ### END SOLUTION


# %%
lab.evidence("13_hunt/layer_norm")

# %% [markdown]
# ## 3 Dropout after GELU
#
# The kernel sets each element to 0 with probability p. The share of zeros is right, and so is the mean of the output.
# But training with it is worse than with PyTorch's dropout.


# %% cell="hunt" id="dropout_gelu_kernel" exercise="13_hunt/dropout_gelu"
@triton.jit
def dropout_gelu_kernel(h_ptr, bias_ptr, out_ptr, p, seed, N, stride_hm, stride_om, BLOCK_N: tl.constexpr):
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


# %%
lab.evidence("13_hunt/dropout_gelu")
lab.tiny("13_hunt/dropout_gelu")

# %% [markdown]
# ## 4 Softmax in two launches
#
# A first launch of `stats_kernel` stores maximum and sum of each part of a row. The second launch merges them and
# normalizes. Only the first launch has a bug. Softmax was right in a model whose rows have a power of two of columns.


# %% cell="hunt" id="stats_kernel" exercise="13_hunt/split_softmax"
@triton.jit
def stats_kernel(x_ptr, m_ptr, l_ptr, N, parts, stride_xm, BLOCK: tl.constexpr):
    """Store m[row, part] and l[row, part] of BLOCK elements of x. One program computes one part of one row."""
    row = (tl.program_id(0) // parts).to(tl.int64)
    part = tl.program_id(0) % parts
    offs_n = part * BLOCK + tl.arange(0, BLOCK)
    ### BEGIN SOLUTION
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=offs_n < N, other=-float("inf")).to(tl.float32)
    m, l = part_stats(x)
    tl.store(m_ptr + row * parts + part, m)
    tl.store(l_ptr + row * parts + part, l)
    ### END SOLUTION


# %%
lab.evidence("13_hunt/split_softmax")
lab.tiny("13_hunt/split_softmax")

# %% [markdown]
# ## 5 Name the bugs
#
# Fill in `bug`: for each hunt, the line of its kernel's cell where the bug is, and the cause. Lines count from 1 (View
# → Show Line Numbers). If several lines can be changed to fix the bug, any of them is right.
#
# The causes to choose from:
#
# - missing rescale
# - cancellation
# - repeated random numbers
# - padded lanes
# - wrong divisor
# - wrong stride
# - too few programs
# - maximum not subtracted
#
# <details><summary>Hint 1</summary><code>online_softmax</code>: which rows fail? When the maximum grows, what becomes
# of the terms that are already added?</details>
# <details><summary>Hint 2</summary><code>layer_norm</code>: in which cases is the mean much larger than the deviations
# from it?</details>
# <details><summary>Hint 3</summary><code>dropout_gelu</code>: compare the zeros in row 0 with those in row 1.</details>
# <details><summary>Hint 4</summary><code>split_softmax</code>: what do lanes past the end of a row add to its last
# part?</details>


# %% cell="solution" id="bug"
def bug(hunt):
    """Return the line and the cause of a hunt's bug, such as {"line": 12, "cause": "…"}.

    hunt  "online_softmax", "layer_norm", "dropout_gelu" or "split_softmax"
    """
    ### BEGIN SOLUTION
    found = {
        "online_softmax": {"line": 21, "cause": "missing rescale"},
        "layer_norm": {"line": 21, "cause": "cancellation"},
        "dropout_gelu": {"line": 14, "cause": "repeated random numbers"},
        "split_softmax": {"line": 7, "cause": "padded lanes"},
    }
    return found[hunt]
    ### END SOLUTION


# %% cell="check" exercise="13_hunt/bug"
lab.check("13_hunt/bug")

# %% [markdown]
# ## 6 Fix them
#
# Change the kernels in their cells above, run the cells, and check. A fix needs few characters or lines; the rest of
# the kernel is right.

# %% cell="check" exercise="13_hunt/online_softmax"
lab.check("13_hunt/online_softmax")

# %% cell="check" exercise="13_hunt/layer_norm"
lab.check("13_hunt/layer_norm")

# %% cell="check" exercise="13_hunt/dropout_gelu"
lab.check("13_hunt/dropout_gelu")

# %% cell="check" exercise="13_hunt/split_softmax"
lab.check("13_hunt/split_softmax")

# %% [markdown]
# **Next.** `14_matmul_triton` multiplies matrices, and `15_hunt` hides bugs in its kernels.
#
# **In practice** keep each bug that you fix as a test: the smallest case that showed it.

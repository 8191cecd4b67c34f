# %% [markdown]
# # Fuse a chain of memory-bound operations
#
# **You will** predict the speedup of [fusion](../glossary.md#fusion) from bytes, then write four fused kernels:
# [RMSNorm](../glossary.md#rmsnorm); a chain of three operations (add a [residual](../glossary.md#residual), RMSNorm,
# SiLU); [LayerNorm](../glossary.md#layernorm); and LayerNorm of long rows.
#
# **You will learn to**
# - predict a speedup from a [ledger](../glossary.md#ledger) of bytes, and compare the prediction with timings;
# - compute a mean and a variance without losing precision;
# - choose between a row in registers and a row that is read again from a cache;
# - decide when one kernel is worse than two.
#
# **You need** `06_elementwise_triton` and `11_softmax`. About 100 minutes; `13_fusion_dropout` continues with random
# masks. You need a GPU only to measure times.
#
# ## Predict
#
# A [transformer block](../glossary.md#transformer-block) consists of [matmuls](../glossary.md#matmul) with chains of
# small operations between them: add the residual, normalize, apply an activation function, drop elements at random.
# These operations are [memory-bound](../glossary.md#memory-bound): they do little arithmetic per byte. `eager_chain`
# below is such a chain in PyTorch's default ([eager](../glossary.md#eager-mode)) mode, which runs one kernel per
# operation. The inputs `x` and `residual` have shape (B, T, H): B sequences of T tokens, with H features per token. The
# weight `w` has H elements.
#
# How many elements does `eager_chain` read and write in total? How many does a single, fused kernel read and write? It
# keeps all intermediate results in [registers](../glossary.md#register). Count the weight once for each kernel that
# uses it. If both versions run at the full [bandwidth](../glossary.md#bandwidth) of memory, the ratio of the two
# numbers is the speedup. Return this ratio from `chain_speedup`. The picture below shows both counts for B · T = 4 and
# H = 12.

# %% cell="setup"

# %% cell="given" id="launchers"
import torch
import triton
import triton.language as tl

from labutils import compiled, traffic

EPS = tl.constexpr(1e-6)  # a kernel can read a global variable only if it is a constexpr
LAYER_EPS = tl.constexpr(1e-5)


def eager_chain(x, residual, w):
    """Three kernels. Each reads its inputs from memory and writes its result there."""
    s = x + residual
    n = torch.nn.functional.rms_norm(s, s.shape[-1:], w, 1e-6)
    return torch.nn.functional.silu(n)


# An example for section 1: this kernel divides each row by the sum of its absolute values.
@triton.jit
def scale_rows_kernel(
    x_ptr, out_ptr, N: tl.constexpr, stride_xm: tl.constexpr, stride_om: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """out[m, n] = x[m, n] / sum_k |x[m, k]|; one program computes one row."""
    row = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * stride_om + offs_n, x / tl.sum(tl.abs(x)), mask=offs_n < N)


def warps_for(N):
    """Warps of a program with one row of N elements, a power of two: tuned on an H200."""
    if N <= 4096:
        return min(triton.cdiv(triton.next_power_of_2(N), 512), 8)
    return min(triton.next_power_of_2(N // 1024 + 1) // 2, 32)


def options_for(N):
    """Tile size and launch options for rows of N elements."""
    return dict(BLOCK_N=triton.next_power_of_2(N), num_warps=warps_for(N))


def chain_options_for(N):
    """The same for the chain, tuned on an H200."""
    if N <= 4096:
        return options_for(N)
    # up to 24 576 columns, 8 warps need at most 128 registers per thread, so two programs fit on an SM
    num_warps = 8 if N < 8192 or 20_480 < N <= 24_576 else 16 if N <= 20_480 else 32
    return dict(BLOCK_N=triton.next_power_of_2(N), num_warps=num_warps)


def rms_norm(x, w, out):
    M, N = x.shape
    rms_norm_kernel[(M,)](x, w, out, N, x.stride(0), out.stride(0), **options_for(N))


def rms_residual_silu(x, residual, w, out):
    M, N = x.shape
    strides = x.stride(0), residual.stride(0), out.stride(0)
    rms_residual_silu_kernel[(M,)](x, residual, w, out, N, *strides, **chain_options_for(N))


def layer_norm(x, w, b, out):
    M, N = x.shape
    layer_norm_kernel[(M,)](x, w, b, out, N, x.stride(0), out.stride(0), **options_for(N))


def long_options_for(N):
    """Block size and launch options for a row that is read in blocks: tuned on an H200."""
    BLOCK_N = 2048 if N <= 7168 else 4096 if N <= 20_480 else 8192
    return dict(BLOCK_N=BLOCK_N, num_warps=BLOCK_N // 256)


def long_rms_norm(x, w, out):
    M, N = x.shape
    long_rms_norm_kernel[(M,)](x, w, out, N, x.stride(0), out.stride(0), **long_options_for(N))


def long_layer_norm(x, w, b, out):
    M, N = x.shape
    long_layer_norm_kernel[(M,)](x, w, b, out, N, x.stride(0), out.stride(0), **long_options_for(N))


traffic.ledger(
    {  # for each kernel: (elements read, elements written)
        "eager": {"x + residual": (96, 48), "RMSNorm": (60, 48), "SiLU": (48, 48)},
        "fused": {"all three": (108, 48)},
    },
    title="Elements moved for 4 tokens of 12 elements",
)


# %% cell="solution" id="chain_speedup"
def chain_speedup(B, T, H):
    """Elements that eager_chain moves, divided by those that a fused kernel must move."""
    ### BEGIN SOLUTION
    x = B * T * H
    eager = 3 * x + (2 * x + H) + 2 * x
    fused = 2 * x + H + x
    return eager / fused
    ### END SOLUTION


# %% cell="check" exercise="13_fusion/chain_speedup"
lab.check("13_fusion/chain_speedup")

# %% [markdown]
# ## 1 RMSNorm
#
# RMSNorm ([Zhang and Sennrich](https://arxiv.org/abs/1910.07467)) is $y_n = x_n \cdot w_n / \sqrt{\frac{1}{N} \sum_k
# x_k^2 + \varepsilon}$ with ε = 10⁻⁶. Compute in [fp32](../glossary.md#fp32), whatever the type of x: the largest
# [fp16](../glossary.md#fp16) number is 65 504, so even 300² = 90 000 overflows.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_ptr` | (M, N) | input: fp32, fp16 or [bf16](../glossary.md#bf16) |
# | `out_ptr` | (M, N) | output, of the same type |
# | `N` | constant | number of columns |
# | `stride_xm` | constant | distance between neighboring rows of x, in elements |
# | `stride_om` | constant | distance between neighboring rows of the output, in elements |
# | `w_ptr` | (N,) | weight |
# | `BLOCK_N` | constant | a power of two ≥ N |
# | `EPS` | constant | ε |
#
# `N` and the strides are constants, as in `11_softmax`: with ordinary arguments, each thread would load fp16 rows of
# 5000 columns 2 bytes at a time, because 5000 is divisible by 8, but not by 16.
#
# <details><summary>Hint 1</summary>Each program computes one row, as in <code>scale_rows_kernel</code>.</details>
# <details><summary>Hint 2</summary>Load elements past the end of the row as 0: they then add nothing to the sum. For
# the mean, divide by <code>N</code>, not by <code>BLOCK_N</code>.</details>
# <details><summary>Hint 3</summary><code>tl.rsqrt(mean + EPS)</code> is 1 / √(mean + ε).</details>


# %% cell="solution" id="rms_norm_kernel"
@triton.jit
def rms_norm_kernel(
    x_ptr, w_ptr, out_ptr, N: tl.constexpr, stride_xm: tl.constexpr, stride_om: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """Divide each row by its root mean square, then multiply by the weight.

    out[m, n] = x[m, n] * w[n] / sqrt(sum_k x[m, k]^2 / N + EPS)

    x_ptr    (M, N)  input; rows are stride_xm elements apart
    w_ptr    (N,)    input
    out_ptr  (M, N)  output; rows are stride_om elements apart
    One program computes one row, m = pid.
    """
    row = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    ### BEGIN SOLUTION
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x) / N + EPS)
    w = tl.load(w_ptr + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * stride_om + offs_n, x * scale * w, mask=mask_n)
    ### END SOLUTION


# %% cell="check" exercise="13_fusion/rms_norm"
lab.tiny("13_fusion/rms_norm")
lab.check("13_fusion/rms_norm")

# %% [markdown]
# Use this table when a check of this notebook fails:
#
# | diagnosis | common cause |
# |---|---|
# | `padded-lanes` | a sum is divided by `BLOCK_N`, or (section 3) x − μ is not set to 0 past the end of the row |
# | `overflow` | a square is computed in fp16, or ε is missing and the kernel divides a row of zeros by 0 |
# | `precision` | arithmetic is in fp16, or (section 3) the variance is computed as (mean of x²) − μ² |
# | `missing-accumulation` | (section 4) a sum is that of one block only |
#
# ## 2 The whole chain
#
# Compute out = silu(RMSNorm(x + residual)). RMSNorm includes the weight w, and silu(n) = n · sigmoid(n). Keep all
# intermediate results in registers, in fp32. One program computes one row.
#
# Load the weight only after the sum over the row. A weight that is loaded earlier occupies registers while the program
# waits for the row. For 32 768 columns, each of 1024 threads has at most 64 registers, and 32 of them hold its elements
# of the row. The weight would take 32 more, so registers [spill](../glossary.md#spill).
#
# <details><summary>Hint 1</summary>Load a row of <code>x</code> and of <code>residual</code>, add them, and normalize
# the sum.</details>
# <details><summary>Hint 2</summary>Use <code>tl.sigmoid</code>, which does not overflow.</details>
# <details><summary>Hint 3</summary>The arrays <code>x</code>, <code>residual</code> and <code>out</code> have different
# strides: use the stride of each array.</details>


# %% cell="solution" id="rms_residual_silu_kernel"
@triton.jit
def rms_residual_silu_kernel(
    x_ptr, residual_ptr, w_ptr, out_ptr, N: tl.constexpr, stride_xm: tl.constexpr, stride_rm: tl.constexpr,
    stride_om: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """SiLU of the RMSNorm of a sum.

    s = x + residual;  n = s[m, n] * w[n] / sqrt(sum_k s[m, k]^2 / N + EPS);  out = n * sigmoid(n)

    x_ptr         (M, N)  input; rows are stride_xm elements apart
    residual_ptr  (M, N)  input; rows are stride_rm elements apart
    w_ptr         (N,)    input
    out_ptr       (M, N)  output; rows are stride_om elements apart
    One program computes one row, m = pid.
    """
    row = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    ### BEGIN SOLUTION
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    residual = tl.load(residual_ptr + row * stride_rm + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    s = x + residual
    scale = tl.rsqrt(tl.sum(s * s) / N + EPS)
    w = tl.load(w_ptr + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    n = s * scale * w
    tl.store(out_ptr + row * stride_om + offs_n, n * tl.sigmoid(n), mask=mask_n)
    ### END SOLUTION


# %% cell="check" exercise="13_fusion/rms_residual_silu"
lab.tiny("13_fusion/rms_residual_silu")
lab.check("13_fusion/rms_residual_silu")

# %%
print(f"predicted {chain_speedup(1, 8192, 4096):.2f} ×")
if lab.device.has_gpu():
    x, residual, w = (
        torch.randn(*n, dtype=torch.float16, device="cuda") for n in ((8192, 4096), (8192, 4096), (4096,))
    )
    out, compiled_chain = torch.empty_like(x), torch.compile(eager_chain)

    def mine(x, residual, w):
        rms_residual_silu(x, residual, w, out)

    print(lab.compare(x, residual, w, mine=mine, eager=eager_chain, compiled=compiled_chain))
    print(lab.profile(eager_chain, x, residual, w), lab.profile(compiled_chain, x, residual, w), sep="\n")

# %% [markdown]
# For such a chain, a common claim is a speedup of {claim: fusion_claim_chain} over eager mode. A *transfer* is one read
# or one write of an array of the size of x. Eager mode makes 7 transfers (3 + 2 + 2) and the fused kernel makes 3: the
# claimed speedup is the ratio 7 / 3. On an H200 (fp16, 8192 × 4096) we measured:
#
# - the fused kernel: {claim: fusion_h200_chain};
# - `eager_chain` with `torch.compile`: {claim: fusion_h200_compiled};
# - three kernels with 7 transfers (eager addition, our `rms_norm`, eager SiLU): {claim: fusion_h200_eager}, which is
#   {claim: fusion_h200_eager_ratio} the time of the fused kernel;
# - the chain in eager mode with RMSNorm written as separate operations (square, mean, rsqrt, two products; not the code
#   of `eager_chain`): {claim: fusion_h200_lines}, which is {claim: fusion_h200_lines_ratio} the time of the fused
#   kernel. This version makes many more than 7 transfers.
#
# `torch.compile` fuses this chain automatically. The name of each generated kernel says what the kernel does:
# `triton_red_fused_add_…` is a [reduction](../glossary.md#reduction) with the operations before and after it, and
# `triton_poi_…` is a pointwise (elementwise) chain. `torch.compile` does not fuse operations into a library's matmul
# kernel. It also does not fuse two operations if there is an operator between them that it cannot
# [trace](../glossary.md#torchcompile).
#
# **Extra.** Also store x + residual, which a transformer needs for its next block. Eager mode stores this sum anyway,
# so it still makes 7 transfers; the fused kernel now makes 4. You can also write the [backward
# pass](../glossary.md#backward-pass) of RMSNorm; the gradient of w is a sum over all rows.
# [Liger-Kernel](https://github.com/linkedin/Liger-Kernel) has such kernels for training.
#
# ## 3 LayerNorm
#
# LayerNorm is $y_n = (x_n - \mu)\, w_n / \sqrt{\sigma^2 + \varepsilon} + b_n$ with ε = 10⁻⁵. μ is the mean of the row
# and σ² its variance. Compute μ first, then σ², the mean of (x − μ)²: the row is in registers, so a second pass is
# cheap. Do not use the formula σ² = (mean of x²) − μ². If μ is much larger than σ, this formula subtracts two nearly
# equal numbers and loses all precision.
#
# <details><summary>Hint 1</summary>In x − μ, the elements past the end are −μ. Which value adds nothing to the sum of
# squares?</details>
# <details><summary>Hint 2</summary>Use <code>tl.where(mask_n, x - mean, 0.0)</code>.</details>
# <details><summary>Hint 3</summary>Divide both sums by N. (PyTorch's LayerNorm does not divide by N − 1.)</details>


# %% cell="solution" id="layer_norm_kernel"
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


# %% cell="check" exercise="13_fusion/layer_norm"
lab.check("13_fusion/layer_norm")

# %% [markdown]
# ## 4 Long rows
#
# So far, a row stays in registers. A row of 24 576 columns needs too many: `layer_norm_kernel` takes 103 registers per
# thread, so an SM runs only one program of 16 warps at a time. While this program computes its sums, the SM loads
# nothing.
#
# `long_rms_norm_kernel` below reads the row in blocks, and reads it twice: once for the sum, once for the result. A
# thread holds 8 elements at a time, so the kernel needs few registers, and an SM runs 1536 threads or more. While one
# program computes, others load. The second read causes no traffic to memory, because the row is still in the
# [L1](../glossary.md#l1-cache) or [L2 cache](../glossary.md#l2-cache). The argument `eviction_policy` tells the caches
# what to keep ([eviction policy](../glossary.md#eviction-policy)): `evict_last` for data that will be read again,
# `evict_first` for data that will not.
#
# On an H200 (fp16, 4096 × 24 576), `long_rms_norm` reaches {claim: fusion_h200_long_rms} of the bandwidth of a copy,
# `rms_norm` {claim: fusion_h200_row_rms}. For LayerNorm it is {claim: fusion_h200_long_layer} and
# {claim: fusion_h200_row_layer}. `torch.compile`, which also reads such rows twice, reaches
# {claim: fusion_h200_compiled_rms} for RMSNorm and {claim: fusion_h200_compiled_layer} for LayerNorm.
#
# Write `long_layer_norm_kernel` in the same way, with three loops: for μ, for σ², and for the result. The arguments are
# those of `layer_norm_kernel`, except that `BLOCK_N` can be smaller than N.
#
# <details><summary>Hint 1</summary>The second loop needs μ: compute <code>mean</code> between the first two loops, with
# one <code>tl.sum</code>.</details>
# <details><summary>Hint 2</summary>In the last block, lanes past the end of the row are 0. In the second loop, set
# x − μ to 0 there, as in section 3.</details>
# <details><summary>Hint 3</summary>The first two loops read the row with <code>"evict_last"</code>, the third with
# <code>"evict_first"</code>.</details>


# %% cell="given" id="long_rms_norm_kernel"
@triton.jit
def long_rms_norm_kernel(
    x_ptr, w_ptr, out_ptr, N: tl.constexpr, stride_xm: tl.constexpr, stride_om: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """RMSNorm of rows of any length. One program computes one row, in blocks of BLOCK_N columns."""
    x_ptr += tl.program_id(0) * stride_xm
    out_ptr += tl.program_id(0) * stride_om
    squares = tl.zeros((BLOCK_N,), tl.float32)  # one sum per lane: a single reduction after the loop
    for start in tl.range(0, N, BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + offs_n, mask=offs_n < N, other=0.0, eviction_policy="evict_last").to(tl.float32)
        squares += x * x
    scale = tl.rsqrt(tl.sum(squares) / N + EPS)
    for start in tl.range(0, N, BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + offs_n, mask=offs_n < N, other=0.0, eviction_policy="evict_first").to(tl.float32)
        w = tl.load(w_ptr + offs_n, mask=offs_n < N, other=0.0, eviction_policy="evict_last").to(tl.float32)
        tl.store(out_ptr + offs_n, x * scale * w, mask=offs_n < N)


# %% cell="solution" id="long_layer_norm_kernel"
@triton.jit
def long_layer_norm_kernel(
    x_ptr, w_ptr, b_ptr, out_ptr, N: tl.constexpr, stride_xm: tl.constexpr, stride_om: tl.constexpr,
    BLOCK_N: tl.constexpr
):  # fmt: skip
    """LayerNorm of rows of any length.

    out[m, n] = (x[m, n] - mean) * w[n] / sqrt(sum_k (x[m, k] - mean)^2 / N + LAYER_EPS) + b[n]

    x_ptr         (M, N)  input; rows are stride_xm elements apart
    w_ptr         (N,)    input: weight
    b_ptr         (N,)    input: bias
    out_ptr       (M, N)  output; rows are stride_om elements apart
    One program computes one row, m = pid, in blocks of BLOCK_N columns.
    """
    x_ptr += tl.program_id(0) * stride_xm
    out_ptr += tl.program_id(0) * stride_om
    ### BEGIN SOLUTION
    sums = tl.zeros((BLOCK_N,), tl.float32)
    for start in tl.range(0, N, BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        sums += tl.load(x_ptr + offs_n, mask=offs_n < N, other=0.0, eviction_policy="evict_last").to(tl.float32)
    mean = tl.sum(sums) / N
    squares = tl.zeros((BLOCK_N,), tl.float32)
    for start in tl.range(0, N, BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + offs_n, mask=offs_n < N, other=0.0, eviction_policy="evict_last").to(tl.float32)
        centered = tl.where(offs_n < N, x - mean, 0.0)
        squares += centered * centered
    scale = tl.rsqrt(tl.sum(squares) / N + LAYER_EPS)
    for start in tl.range(0, N, BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + offs_n, mask=offs_n < N, other=0.0, eviction_policy="evict_first").to(tl.float32)
        w = tl.load(w_ptr + offs_n, mask=offs_n < N, other=0.0, eviction_policy="evict_last").to(tl.float32)
        b = tl.load(b_ptr + offs_n, mask=offs_n < N, other=0.0, eviction_policy="evict_last").to(tl.float32)
        tl.store(out_ptr + offs_n, (x - mean) * scale * w + b, mask=offs_n < N)
    ### END SOLUTION


# %% cell="check" exercise="13_fusion/long_layer_norm"
lab.check("13_fusion/long_layer_norm")

# %% [markdown]
# ## 5 When fusion does not pay
#
# Fusion gains nothing if the operations are [compute-bound](../glossary.md#compute-bound). It gains nothing, or even
# makes the chain slower, in three more cases:
#
# - The data of the fused kernel does not fit into registers and shared memory. Values then
#   [spill](../glossary.md#spill), or the kernel reads its input from memory again.
# - One operation needs whole rows and the next needs whole columns, so the fused kernel still reads the matrix twice.
# - A result is used several times, and the fused kernel computes the result again for each use.
#
# Write `fusion_speedup` with the [roofline](../glossary.md#roofline): a kernel takes bytes / bandwidth or
# [FLOPs](../glossary.md#flop) / [peak](../glossary.md#peak), whichever is longer, and kernels run one after another.
# `links` is a list with one pair (bytes, FLOPs) for each kernel before fusion, and `fused` is the pair of the fused
# kernel. `bandwidth` is in 10⁹ bytes/s, `peak` in 10⁹ FLOP/s. The check uses six chains.


# %% cell="solution" id="fusion_speedup"
def fusion_speedup(links, fused, bandwidth, peak):
    """Total time of the kernels in links, divided by the time of the fused kernel."""
    ### BEGIN SOLUTION

    def seconds(cost):
        return max(cost[0] / (bandwidth * 1e9), cost[1] / (peak * 1e9))

    return sum(map(seconds, links)) / seconds(fused)
    ### END SOLUTION


# %% cell="check" exercise="13_fusion/fusion_speedup"
lab.check("13_fusion/fusion_speedup")

# %%
lab.claims("13_fusion")  # a two-minute quiz: predict each number, then compare
# Your chain, compiled for rows of 4096 and 32 768 columns. Values that do not fit into a thread's registers spill.
launches = {}
for N, warps in ((4096, 4), (32_768, 8), (32_768, 16), (32_768, 32)):
    wide = torch.empty(2, N, dtype=torch.float16)
    options = dict(BLOCK_N=N, num_warps=warps)
    launches[f"{N} columns, {warps} warps"] = rms_residual_silu_kernel, (wide, wide, wide, wide, *[N] * 4), options
compiled.table(launches)
kernels = ("rms_norm", "rms_residual_silu", "layer_norm", "long_layer_norm")
for name in kernels if lab.device.has_gpu() else ["rms_residual_silu"]:
    print(lab.benchmark(f"13_fusion/{name}") or "")

# %% [markdown] cell="manual" id="explain" points=2
# **Explain.** The check's six chains are: bias, then GELU, then dropout; a large matmul, then GELU; softmax of rows too
# long for registers and shared memory; the sum of each row, then of each column; two matmuls, where the first is
# recomputed for each tile of the second; a linear layer whose result three kernels use. Which chains would you fuse?
# For each of the others, give the reason from section 5.
#
# Second question: an RMSNorm can be written in eager PyTorch as x · rsqrt(mean(x²) + ε) · w. It is said to take
# {claim: fusion_claim_norm} the time of a fused RMSNorm. On an H200 we measured {claim: fusion_h200_norm}, with x in
# fp16 and arithmetic in fp32. Count the bytes that the eager version and the fused version move; each operation and
# each conversion between fp16 and fp32 is a kernel. What speedup do the bytes alone predict?
#
# ### BEGIN SOLUTION
# Fuse the bias, GELU and dropout chain (2.6 ×). After the large matmul, fuse the GELU if it costs nothing: it saves a
# round trip to memory, a tenth of the time, because the matmul is compute-bound. Do not fuse the long rows that do not
# fit on the chip, nor the sums along two axes: fusion does not change the bytes that they move. Do not fuse the two
# matmuls, nor a matmul whose result three kernels read: fused, they repeat arithmetic and take longer. Eager RMSNorm
# computes fp16 in fp32. In units of N fp16 elements: to fp32 (1 + 2), square (2 + 2), mean (2), scale (2 + 2), to fp16
# (2 + 1), weight (1 + 1). That is 18, and a fused kernel moves 2. So the bytes predict a factor of 9.
#
# ### END SOLUTION

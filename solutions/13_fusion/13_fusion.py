# %% [markdown]
# # Fuse a chain of memory-bound operations
#
# **You will** predict from bytes what fusion gains, then write five fused kernels: RMSNorm, the chain residual +
# RMSNorm + SiLU, LayerNorm, and dropout of GELU with its backward pass.
#
# **You will learn to**
# - turn a ledger of transfers into a predicted speed-up, and check it against counts and clocks;
# - compute a mean and a variance that keep their digits;
# - draw the same random mask twice in place of storing it;
# - say when one kernel is worse than two.
#
# **You need** `06_elementwise_triton` and `11_softmax`.
#
# About 120 minutes. Works without a GPU; only times need one.

# %% cell="setup"

# %% cell="given"
import functools
import math

import torch
import triton
import triton.language as tl

from labutils import compiled, traffic

EPS = tl.constexpr(1e-6)  # a kernel reads a global only if it is a constexpr
LAYER_EPS = tl.constexpr(1e-5)


def eager_chain(x, residual, w):
    """Three kernels, each of which reads its inputs from memory and writes its result there."""
    s = x + residual
    n = torch.nn.functional.rms_norm(s, s.shape[-1:], w, 1e-6)
    return torch.nn.functional.silu(n)


# %% [markdown]
# ## Predict
#
# A transformer block is a graph of matmuls with chains of small operations between them: add the residual, normalise,
# activate, drop. None of these has work enough for the arithmetic units: each waits for memory. `eager_chain` is such a
# chain, over x and residual of shape (B, T, H) with a weight of H elements.
#
# How many elements does it read and write in all, how many would a single kernel that keeps everything between in
# registers? Where both run at the speed of memory, the quotient is the speed-up.


# %% cell="solution" id="chain_speedup"
def chain_speedup(B, T, H):
    """Elements that eager_chain moves, over those that a fused kernel must move."""
    ### BEGIN SOLUTION
    x = B * T * H
    eager = 3 * x + (2 * x + H) + 2 * x
    fused = 2 * x + H + x
    return eager / fused
    ### END SOLUTION


# %% cell="check" exercise="13_fusion/chain_speedup"
lab.check("13_fusion/chain_speedup")


# %% cell="given"
# A neighbour of your kernels, finished: each row divided by the sum of its absolute values, one row for each program.
@triton.jit
def scale_rows_kernel(x_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    """out[m, n] = x[m, n] / sum_k |x[m, k]|; one program takes one row."""
    row = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * stride_om + offs_n, x / tl.sum(tl.abs(x)), mask=offs_n < N)


def scale_rows(x, out):
    M, N = x.shape
    BLOCK_N = triton.next_power_of_2(N)
    scale_rows_kernel[(M,)](x, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N)


display(lab.access_map(scale_rows, torch.ones(4, 12), torch.empty(4, 12), title="scale_rows: 4 rows of 12"))
traffic.ledger(
    {
        "eager": {"x + residual": (96, 48), "RMSNorm": (60, 48), "SiLU": (48, 48)},
        "fused": {"all three": (108, 48)},
    },
    title="Elements moved for 4 tokens of 12",
)

# %% [markdown]
# ## 1 RMSNorm
#
# $y_n = x_n \cdot w_n / \sqrt{\frac{1}{N} \sum_k x_k^2 + \varepsilon}$ with ε = 10⁻⁶, in fp32 whatever x is: 300² is
# more than fp16 can hold.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_ptr`, `out_ptr` | (M, N) | input, output (fp32, fp16 or bf16); rows `stride_xm`, `stride_om` elements apart |
# | `w_ptr` | (N,) | weight |
# | `BLOCK_N` | constant | a power of two ≥ N; `EPS` is ε |
#
# <details><summary>Hint 1</summary>One row for each program, as in <code>scale_rows_kernel</code>.</details>
# <details><summary>Hint 2</summary>Lanes beyond the row hold 0, and add nothing; the mean divides by N, not by
# BLOCK_N.</details>
# <details><summary>Hint 3</summary><code>tl.rsqrt(mean + EPS)</code> is one over the root.</details>


# %% cell="solution" id="rms_norm_kernel"
@triton.jit
def rms_norm_kernel(x_ptr, w_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    """Divide each row by its root mean square, then weight its columns.

    out[m, n] = x[m, n] * w[n] / sqrt(sum_k x[m, k]^2 / N + EPS)

    x_ptr    (M, N)  input, rows stride_xm apart
    w_ptr    (N,)    input
    out_ptr  (M, N)  output, rows stride_om apart
    One program computes one row, m = pid.
    """
    row = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    ### BEGIN SOLUTION
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x) / N + EPS)
    tl.store(out_ptr + row * stride_om + offs_n, x * scale * w, mask=mask_n)
    ### END SOLUTION


# %% cell="given" id="rms_norm"
def warps_for(BLOCK_N):
    return min(max(BLOCK_N // 1024, 1), 16)


def rms_norm(x, w, out):
    M, N = x.shape
    BLOCK_N = triton.next_power_of_2(N)
    num_warps = warps_for(BLOCK_N)
    rms_norm_kernel[(M,)](x, w, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N, num_warps=num_warps)


lab.tiny("13_fusion/rms_norm")

# %% cell="check" exercise="13_fusion/rms_norm"
lab.check("13_fusion/rms_norm")

# %% [markdown]
# When a check fails:
#
# | what it says | a common cause |
# |---|---|
# | `padded-lanes` | a mean over BLOCK_N; or lanes beyond the row, 0 at first, that are −mean after subtracting it |
# | `overflow` | a square in fp16, or a root without ε of a row of zeros |
# | `precision` | arithmetic in fp16; a variance as E[x²] − mean², the small difference of large numbers |
# | `wrong-formula`, the same columns | the random numbers must depend on the row too |
#
# ## 2 The whole chain
#
# out = silu(RMSNorm(x + residual) · w) with silu(n) = n · sigmoid(n). Everything between the loads and the store stays
# in registers, in fp32. Programs stay, as in `11_softmax`: each takes every P-th row, so that the weight is loaded once
# for all of them.
#
# <details><summary>Hint 1</summary>The weight before the loop; in it, two loads, their sum, and the norm of that.
# </details>
# <details><summary>Hint 2</summary><code>tl.sigmoid</code> does not overflow.</details>
# <details><summary>Hint 3</summary>x, residual and out have a stride each.</details>


# %% cell="solution" id="rms_residual_silu_kernel"
@triton.jit
def rms_residual_silu_kernel(
    x_ptr, residual_ptr, w_ptr, out_ptr, M, N, stride_xm, stride_rm, stride_om,
    BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """SiLU of the RMSNorm of a sum.

    s = x + residual;  n = s[m, n] * w[n] / sqrt(sum_k s[m, k]^2 / N + EPS);  out = n * sigmoid(n)

    x_ptr, residual_ptr  (M, N)  inputs, rows stride_xm and stride_rm apart
    w_ptr                (N,)    input
    out_ptr              (M, N)  output, rows stride_om apart
    One program computes every P-th row, for P programs.
    """
    offs_n = tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    ### BEGIN SOLUTION
    w = tl.load(w_ptr + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    for row in tl.range(tl.program_id(0), M, tl.num_programs(0), num_stages=STAGES):
        x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=0.0).to(tl.float32)
        residual = tl.load(residual_ptr + row * stride_rm + offs_n, mask=mask_n, other=0.0).to(tl.float32)
        s = x + residual
        n = s * tl.rsqrt(tl.sum(s * s) / N + EPS) * w
        tl.store(out_ptr + row * stride_om + offs_n, n * tl.sigmoid(n), mask=mask_n)
    ### END SOLUTION


# %% cell="given" id="rms_residual_silu"
def chain_settings(N):
    """`python -m bench.fusion --tune` measured these on an H200."""
    BLOCK_N = triton.next_power_of_2(N)
    return dict(BLOCK_N=BLOCK_N, STAGES=2, num_warps=warps_for(BLOCK_N))


@functools.cache
def programs_that_stay(N, dtype, device):
    """How many programs to start, from the compiled kernel's registers."""
    x = torch.empty(1, N, dtype=dtype, device=device)
    return compiled.staying(rms_residual_silu_kernel, x, x, x, x, 1024, N, N, N, N, **chain_settings(N))


def rms_residual_silu(x, residual, w, out):
    M, N = x.shape
    programs = min(M, programs_that_stay(N, x.dtype, x.device))
    rms_residual_silu_kernel[(programs,)](
        x, residual, w, out, M, N, x.stride(0), residual.stride(0), out.stride(0), **chain_settings(N)
    )


lab.tiny("13_fusion/rms_residual_silu")

# %% cell="check" exercise="13_fusion/rms_residual_silu"
lab.check("13_fusion/rms_residual_silu")

# %%
# The claim in circulation: 2.3 × over eager, which is the ratio of the traffic. Is it, on your GPU?
x, residual, w = torch.randn(8192, 4096), torch.randn(8192, 4096), torch.ones(4096)
if lab.device.has_gpu():
    x, residual, w = (t.half().cuda() for t in (x, residual, w))
    out, compiled_chain = torch.empty_like(x), torch.compile(eager_chain)

    def mine(x, residual, w):
        rms_residual_silu(x, residual, w, out)

    print(f"predicted {chain_speedup(1, 8192, 4096):.2f} ×")
    print(lab.compare(x, residual, w, mine=mine, eager=eager_chain, compiled=compiled_chain))
    print(lab.profile(eager_chain, x, residual, w), lab.profile(compiled_chain, x, residual, w), sep="\n")
else:
    print(f"predicted {chain_speedup(1, 8192, 4096):.2f} ×; stored (H200, fp16, 8192 × 4096): this kernel 53.2 µs,")
    print("torch.compile 57.7, eager with 7 transfers 124.9 (2.35 ×), with the norm an operation a line 525.7 (9.9 ×):")
    print("the ledger of that one is far longer than 7 transfers.")

# %% [markdown]
# `torch.compile` fuses this chain by itself. Its kernels' names say what went into them: `triton_red_fused_add_…` is a
# reduction with everything that hangs on it, `triton_poi_…` a pointwise chain. What it does not fuse by itself: into
# library matmuls, and across operations that it does not know.
#
# ## 3 LayerNorm
#
# $y_n = (x_n - \mu)\, w_n / \sqrt{\sigma^2 + \varepsilon} + b_n$ with ε = 10⁻⁵. The row is in registers, so take the
# mean first, then the mean of (x − μ)². The shortcut E[x²] − μ² saves a pass that costs nothing here, and loses all
# digits where μ is large beside σ.
#
# <details><summary>Hint 1</summary>After x − μ the lanes beyond the row hold −μ. What must they hold?</details>
# <details><summary>Hint 2</summary><code>tl.where(mask_n, x - mean, 0.0)</code></details>
# <details><summary>Hint 3</summary>The variance divides by N too, not by N − 1.</details>


# %% cell="solution" id="layer_norm_kernel"
@triton.jit
def layer_norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    """Give each row mean 0 and variance 1, then weight and shift its columns.

    out[m, n] = (x[m, n] - mean) * w[n] / sqrt(sum_k (x[m, k] - mean)^2 / N + LAYER_EPS) + b[n]

    x_ptr         (M, N)  input, rows stride_xm apart
    w_ptr, b_ptr  (N,)    inputs
    out_ptr       (M, N)  output, rows stride_om apart
    One program computes one row, m = pid.
    """
    row = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    ### BEGIN SOLUTION
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    centred = tl.where(mask_n, x - tl.sum(x) / N, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred) / N + LAYER_EPS)
    tl.store(out_ptr + row * stride_om + offs_n, centred * scale * w + b, mask=mask_n)
    ### END SOLUTION


# %% cell="given" id="layer_norm"
def layer_norm(x, w, b, out):
    M, N = x.shape
    BLOCK_N = triton.next_power_of_2(N)
    num_warps = warps_for(BLOCK_N)
    layer_norm_kernel[(M,)](x, w, b, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N, num_warps=num_warps)


# %% cell="check" exercise="13_fusion/layer_norm"
lab.check("13_fusion/layer_norm")

# %% [markdown]
# ## 4 Dropout of GELU, and the mask that is never stored
#
# out = dropout(gelu(h + bias)), after the matmul of a linear layer: with probability p an element becomes 0, otherwise
# it is divided by 1 − p. PyTorch stores the mask for the backward pass. But a *counter-based* generator (Philox) is a
# function: the same seed and counter always give the same number. So the backward pass can draw it again: arithmetic
# in place of 2 bytes of traffic an element.
#
# `uniform` is given. Philox makes four numbers of one counter, and element (m, n) takes number n % 4 of counter
# m · ⌈N/4⌉ + n // 4: any tile finds its numbers without knowing of the others. An element is **kept where its number is
# at least p**. GELU is the tanh form of `06_elementwise_triton`: x · sigmoid(2a).
#
# <details><summary>Hint 1</summary>Load h and bias, both to fp32; GELU; <code>tl.where(u &gt;= p, …, 0.0)</code>.
# </details>
# <details><summary>Hint 2</summary>Backward: dropout and GELU are both functions of one element, so dh is dy times the
# mask's factor times gelu′(h + bias).</details>
# <details><summary>Hint 3</summary>With s = sigmoid(2a): gelu′ = s + 2·x·s·(1 − s)·√(2/π)·(1 + 3·0.044715·x²).
# </details>

# %% cell="given" id="uniform"
ROOT = tl.constexpr(math.sqrt(2 / math.pi))
CUBIC = tl.constexpr(0.044715)


@triton.jit
def uniform(seed, first, BLOCK: tl.constexpr):
    """BLOCK random numbers in [0, 1): four for each counter from `first` on, in order."""
    r0, r1, r2, r3 = tl.rand4x(seed, first + tl.arange(0, BLOCK // 4))
    return tl.interleave(tl.interleave(r0, r2), tl.interleave(r1, r3))


# %% cell="solution" id="dropout_gelu_kernels"
@triton.jit
def dropout_gelu_kernel(h_ptr, bias_ptr, out_ptr, p, seed, N, stride_hm, stride_om, BLOCK_N: tl.constexpr):
    """out[m, n] = gelu(h[m, n] + bias[n]) / (1 - p) where u[m, n] >= p, else 0.

    h_ptr     (M, N)  input, rows stride_hm apart
    bias_ptr  (N,)    input
    out_ptr   (M, N)  output, rows stride_om apart
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
    h_ptr, bias_ptr, dy_ptr, dh_ptr, p, seed, N, stride_hm, stride_ym, stride_dm, BLOCK_N: tl.constexpr
):
    """dh[m, n] = dy[m, n] * gelu'(h[m, n] + bias[n]) / (1 - p) where u[m, n] >= p, else 0.

    h_ptr, dy_ptr, dh_ptr  (M, N)  two inputs and the output, rows stride_hm, stride_ym, stride_dm apart
    bias_ptr               (N,)    input
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


# %% cell="given" id="dropout_gelu"
def dropout_gelu(h, bias, p, seed, out, BLOCK_N=1024):
    M, N = h.shape
    grid = (M * triton.cdiv(N, BLOCK_N),)
    dropout_gelu_kernel[grid](h, bias, out, p, seed, N, h.stride(0), out.stride(0), BLOCK_N=BLOCK_N)


def dropout_gelu_backward(h, bias, dy, p, seed, dh, BLOCK_N=1024):
    M, N = h.shape
    grid, strides = (M * triton.cdiv(N, BLOCK_N),), (h.stride(0), dy.stride(0), dh.stride(0))
    dropout_gelu_backward_kernel[grid](h, bias, dy, dh, p, seed, N, *strides, BLOCK_N=BLOCK_N)


# %% cell="check" exercise="13_fusion/dropout_gelu"
lab.check("13_fusion/dropout_gelu")

# %% cell="check" exercise="13_fusion/dropout_gelu_backward"
lab.check("13_fusion/dropout_gelu_backward")

# %%
# Is the mask random, and is it the same in both passes? 64 × 4096 elements, p = 0.25.
h, zero = torch.ones(64, 4096), torch.zeros(4096)
h, zero = (h.cuda(), zero.cuda()) if lab.device.has_gpu() else (h, zero)
out, dh = torch.empty_like(h), torch.empty_like(h)
dropout_gelu(h, zero, 0.25, 42, out)
dropout_gelu_backward(h, zero, torch.ones_like(h), 0.25, 42, dh)
kept = (out != 0).double()
spread = math.sqrt(0.25 * 0.75 / h.numel())
rows = kept.mean(1)
print(f"kept {kept.mean():.4f}, expected 0.75 ± {3 * spread:.4f}; single rows {rows.min():.3f} to {rows.max():.3f}")
for name, other in (("its right neighbour", kept.roll(1, 1)), ("the row above", kept.roll(1, 0))):
    print(f"correlation with {name}: {((kept - 0.75) * (other - 0.75)).mean() / 0.1875:+.4f}")
print("the same mask in both passes:", torch.equal(out != 0, dh != 0))

# %% [markdown]
# ## 5 When fusing does not pay
#
# A chain gains nothing where a link waits for arithmetic and not for memory. It loses where the fused kernel needs more
# than the chip holds, so that values spill to memory; where two links want different axes in parallel, so that one must
# be read in an order that suits neither; and where a result has several users, so that each of them computes it again.
#
# Predict with the roofline: a kernel takes the longer of bytes / bandwidth and FLOPs / peak, and kernels run one after
# another. Six chains wait in the check, each with `links`, a list of (bytes, FLOPs), and `fused`, one such pair;
# `bandwidth` is in 10⁹ bytes/s, `peak` in 10⁹ FLOP/s. Which of them would you fuse?


# %% cell="solution" id="fusion_speedup"
def fusion_speedup(links, fused, bandwidth, peak):
    """Time of the links one after another, over the time of the fused kernel."""
    ### BEGIN SOLUTION

    def seconds(cost):
        return max(cost[0] / (bandwidth * 1e9), cost[1] / (peak * 1e9))

    return sum(map(seconds, links)) / seconds(fused)
    ### END SOLUTION


# %% cell="check" exercise="13_fusion/fusion_speedup"
lab.check("13_fusion/fusion_speedup")

# %%
# Your chain, compiled for rows of 4096 and of 32 768: what does not fit into a thread's registers goes to memory.
launches = {}
for N, warps in ((4096, 4), (32_768, 8), (32_768, 16), (32_768, 32)):
    wide = torch.empty(2, N, dtype=torch.float16)
    options = dict(BLOCK_N=N, STAGES=1, num_warps=warps)
    launches[f"{N} columns, {warps} warps"] = (
        rms_residual_silu_kernel,
        (wide, wide, wide, wide, 1024, *[N] * 4),
        options,
    )
compiled.table(launches)

# %%
print("Claims: RMSNorm 8.1 × over eager, with the residual 6.0 ×; stored (H200): 11.6 × and 9.9 × over eager.")
names = ("rms_norm", "rms_residual_silu", "layer_norm", "dropout_gelu", "dropout_gelu_backward")
for name in names if lab.device.has_gpu() else ["rms_residual_silu"]:
    print(lab.benchmark(f"13_fusion/{name}") or "")

# %% [markdown] cell="manual" id="explain" points=2
# **Explain.** Which of the six chains would you fuse, and which of the reasons above speaks against the others? And: an
# RMSNorm written as x · rsqrt(mean(x²) + ε) · w in eager PyTorch is said to be 8 × as slow as a fused one. Count its
# transfers: how much of that do they explain?
#
# ### BEGIN SOLUTION
# Fuse the bias, GELU and dropout chain (2.6 ×). After the large matmul the GELU is worth fusing if it costs nothing: it
# saves a trip through memory, a tenth of the time, because the matmul waits for arithmetic. Long rows that do not fit
# the chip and sums along two axes move as many bytes fused as apart: no gain. The two matmuls and the projection that
# three kernels use do arithmetic again, and lose. Eager RMSNorm, fp16 by way of fp32, in units of N fp16 elements: to
# fp32 (1 + 2), square (2 + 2), mean (2), scale (2 + 2), to fp16 (2 + 1), weight (1 + 1): 18 where a fused one moves 2.
# So 8 to 9 × is what the bytes say.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** Store x + residual as well, as a transformer needs it for the next block: 7 against 4. Write the
# backward pass of RMSNorm: dw is a sum over all rows. One Philox call makes 128 bits: eight elements of 16 bits each
# would halve the arithmetic of the mask. Measure what `tl.rand`, one call an element, costs.
#
# **In practice** let `torch.compile` fuse pointwise chains and norms, and look at what it made; write by hand what
# crosses a matmul, an unusual reduction, or a mask that it would store.
#
# **Reading.** [Salmon and others, Parallel random numbers: as easy as 1, 2,
# 3](https://doi.org/10.1145/2063384.2063405): Philox. [Zhang and Sennrich, Root mean square layer
# normalization](https://arxiv.org/abs/1910.07467). [Liger-Kernel](https://github.com/linkedin/Liger-Kernel): such
# kernels in use.

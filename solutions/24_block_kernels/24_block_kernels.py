# %% [markdown]
# # The small kernels of a transformer block
#
# **You will** write the kernels that run between the [matmuls](../glossary.md#matmul) of a transformer block: rotary
# position embedding ([RoPE](../glossary.md#rope)), the [activation function](../glossary.md#activation-function)
# [SwiGLU](../glossary.md#swiglu) with its [backward pass](../glossary.md#backward-pass), and the backward pass of
# [RMSNorm](../glossary.md#rmsnorm).
#
# **You will learn to**
#
# - rotate pairs of elements in the layout that your model uses, in place;
# - write a backward pass that [recomputes](../glossary.md#recomputation) values instead of loading them;
# - sum over the rows of a matrix in two stages, without [atomics](../glossary.md#atomic).
#
# **You need** `06_elementwise_triton` and `13_fusion`. About 80 minutes. You need a GPU only to measure times.
#
# ## 1 RoPE
#
# [Attention](../glossary.md#attention) itself does not know the order of the tokens. RoPE ([Su and
# others](https://arxiv.org/abs/2104.09864)) rotates pairs of elements of each [query and each
# key](../glossary.md#query-key-value). The angle is proportional to the position of the token in its sequence. The
# product of a query and a key then depends on the difference of their positions, not on the positions themselves.
#
# In a [head](../glossary.md#head), a query or key has D elements, which form D/2 pairs (a, b). Pair i of position t is
# rotated by the angle t · 10000^(−2i/D):
#
# - new a = a · cos − b · sin,
# - new b = b · cos + a · sin.
#
# Two layouts are common. In the *half-split* layout, pair i consists of the elements i and i + D/2. In the
# *interleaved* layout, it consists of the neighbors 2i and 2i + 1. The weights of a model fit only one of the two
# layouts. With the wrong layout, no number looks wrong, but the model prints nonsense. This exercise uses the
# half-split layout, as Llama models in Hugging Face Transformers do.
#
# The backward pass of a rotation is the rotation by the negative angle. So one kernel can compute both passes. In the
# backward pass, the kernel gets the gradients of the rotated q and k as inputs, and uses −sin instead of sin. (The
# *gradient* of an array holds the derivative of the loss with respect to each element of the array.)
#
# | argument | shape | meaning |
# |---|---|---|
# | `q_ptr`, `q_out_ptr` | (B, T, H, D) | queries, input and output: B sequences of T tokens, H heads |
# | `k_ptr`, `k_out_ptr` | (B, T, HK, D) | keys, input and output: HK ≤ H heads |
# | `cos_ptr`, `sin_ptr` | (P, D/2) | input, fp32: cosine and sine of the angle of each pair, for P ≥ T positions |
# | `BACKWARD` | constant | true: rotate by the negative angle |
#
# All arrays are [contiguous](../glossary.md#contiguous). HK is less than H in [grouped-query
# attention](../glossary.md#grouped-query-attention). One [program](../glossary.md#program) rotates all heads of one
# token, so all H + HK heads share one row of `cos` and one of `sin`. It does so in a loop over blocks of at most 16
# heads: a single block for 40 heads would have 64, the next power of two, and 24 of them would be masked.
#
# Models call this kernel *in place*: the outputs are the same arrays as the inputs. That saves memory, but the kernel
# moves as many bytes as before. Rotating in place works if a program loads both elements of a pair before it stores one
# of them. In the check, row 0 of `cos` and `sin` is for position 5: at position 0, all angles are 0, and a rotation by
# 0 would hide mistakes.
#
# **Predict.** For H = 32, HK = 8 and D = 128, how many elements of q and k does the kernel read per token, and how many
# does it write? If q and k are [fp16](../glossary.md#fp16), what share of the kernel's bytes are those of `cos` and
# `sin`?
#
# <details><summary>Hint 1</summary>Program <code>pid</code> rotates the token at place <code>pid % T</code> of a
# sequence, and needs row <code>pid % T</code> of <code>cos</code> and <code>sin</code>. A row has D/2
# elements.</details>
# <details><summary>Hint 2</summary>In <code>rotate_heads</code>, element d of head h is at
# <code>x_ptr + h * D + d</code>. The other element of its pair is element d + D/2.</details>
# <details><summary>Hint 3</summary>Call <code>rotate_heads</code> twice. For q, add <code>token * H * D</code> to both
# pointers; for k, <code>token * HK * D</code>.</details>

# %% cell="setup"

# %% cell="given" id="launchers"
import torch
import triton
import triton.language as tl

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


# %% cell="solution" id="rope_kernel"
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
        ### BEGIN SOLUTION
        first = offs_h[:, None] * D + offs_d[None, :]
        second = first + D // 2
        a = tl.load(x_ptr + first, mask=mask).to(tl.float32)
        b = tl.load(x_ptr + second, mask=mask).to(tl.float32)
        tl.store(out_ptr + first, a * cos[None, :] - b * sin[None, :], mask=mask)
        tl.store(out_ptr + second, b * cos[None, :] + a * sin[None, :], mask=mask)
        ### END SOLUTION


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


# %% cell="check" exercise="24_block_kernels/rope"
lab.tiny("24_block_kernels/rope")
lab.check("24_block_kernels/rope")

# %%
# Rotate in place by the angles, and then back by the negative angles.
place = "cuda" if lab.device.has_gpu() else "cpu"
frequency = 10_000.0 ** (-torch.arange(0, 64, 2) / 64)
angle = torch.arange(16)[:, None] * frequency
cos, sin = angle.cos().to(place), angle.sin().to(place)
q, k = torch.randn(2, 16, 8, 64, device=place), torch.randn(2, 16, 2, 64, device=place)
before = q.clone()
rope(q, k, cos, sin, 0, q, k)
print(f"The length of a query changes by at most {(q.norm(dim=-1) - before.norm(dim=-1)).abs().max():.0e}.")
rope(q, k, cos, sin, 1, q, k)
print(f"Rotated back, q differs by at most {(q - before).abs().max():.0e} from its first value.")

# How wrong are the angles if position and frequency are rounded to bf16 first?
for position in (100, 1000, 8001):
    rounded = (torch.tensor(position).bfloat16() * frequency.bfloat16()).float()
    error = (rounded.cos() - (position * frequency).cos()).abs().max()
    print(f"position {position}: cos in bf16 is off by up to {error:.2g}")

# %% [markdown]
# [bf16](../glossary.md#bf16) has 8 significant bits (7 are stored, and the first is always 1). So position 8001 becomes
# 8000, and its product with the frequency is rounded, too. Pairs with a small i, whose angles are large, get almost
# random angles. Compute `cos` and `sin` in fp32, even for a model in bf16.
#
# ## 2 SwiGLU
#
# The feed-forward layer ([MLP](../glossary.md#mlp)) of many models multiplies its input by two matrices; the two
# products are called *gate* and *up*. One matmul computes both. For M tokens, the matmul's result x has the shape (M,
# 2N): the first N columns are the gate, and the last N columns are up. SwiGLU
# ([Shazeer](https://arxiv.org/abs/2002.05202)) is
#
# out = silu(gate) · up, where [silu](../glossary.md#silu)(g) = g · s and s = sigmoid(g).
#
# **Predict.** [Eager](../glossary.md#eager-mode) PyTorch runs one kernel for silu(gate) and one that multiplies it by
# up. For each element of out, how many elements do the two kernels read and write? How many must a single kernel read
# and write? The ratio of the two numbers predicts the speedup of [fusion](../glossary.md#fusion). A speedup that is
# often reported is {claim: swiglu_claim}.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_ptr` | (M, 2N) | input: gate, then up; rows are `stride_xm` elements apart |
# | `out_ptr` | (M, N) | output; rows are `stride_om` elements apart |
#
# One program computes `BLOCK_N` columns of one row. Compute in [fp32](../glossary.md#fp32). N and the strides are
# constants, as in `13_fusion`.
#
# <details><summary>Hint 1 for swiglu</summary>For element n of row m of out, load elements n and N + n of row m of
# x.</details>
# <details><summary>Hint 2 for swiglu</summary>Both loads and the store have the same mask,
# <code>mask_n</code>.</details>
# <details><summary>Hint 3 for swiglu</summary><code>tl.sigmoid</code> needs fp32: convert what you load with
# <code>.to(tl.float32)</code>.</details>


# %% cell="solution" id="swiglu_kernel"
@triton.jit
def swiglu_kernel(
    x_ptr, out_ptr, N: tl.constexpr, stride_xm: tl.constexpr, stride_om: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
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


# %% cell="check" exercise="24_block_kernels/swiglu"
lab.tiny("24_block_kernels/swiglu")
lab.check("24_block_kernels/swiglu")

# %% [markdown]
# **Backward.** dy is the gradient of out, and dx is the gradient of x. The chain rule gives both halves of dx:
#
# - gradient of the gate: dy · up · silu′(gate),
# - gradient of up: dy · silu(gate).
#
# By the product rule, the derivative of silu is silu′(g) = s + g · s · (1 − s). The [forward
# pass](../glossary.md#forward-pass) has stored neither s nor silu(gate). Recompute them from x.
#
# **Predict.** For each element of dy, how many elements does the backward kernel read and write?
#
# `dy_ptr` has the shape (M, N), with rows `stride_ym` elements apart. `dx_ptr` has the shape (M, 2N), with rows
# `stride_dm` elements apart.
#
# <details><summary>Hint 1 for swiglu_backward</summary>Load the gate and up as in the forward kernel, and element n of
# row m of dy. Convert all three to fp32.</details>
# <details><summary>Hint 2 for swiglu_backward</summary>With s = sigmoid(gate), silu(gate) is gate · s.</details>
# <details><summary>Hint 3 for swiglu_backward</summary>Store the gate's gradient in element n of row m of dx, and up's
# in element N + n.</details>


# %% cell="solution" id="swiglu_backward_kernel"
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
    ### BEGIN SOLUTION
    gate = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n).to(tl.float32)
    up = tl.load(x_ptr + row * stride_xm + N + offs_n, mask=mask_n).to(tl.float32)
    dy = tl.load(dy_ptr + row * stride_ym + offs_n, mask=mask_n).to(tl.float32)
    s = tl.sigmoid(gate)
    tl.store(dx_ptr + row * stride_dm + offs_n, dy * up * (s + gate * s * (1 - s)), mask=mask_n)
    tl.store(dx_ptr + row * stride_dm + N + offs_n, dy * gate * s, mask=mask_n)
    ### END SOLUTION


# %% cell="check" exercise="24_block_kernels/swiglu_backward"
lab.check("24_block_kernels/swiglu_backward")

# %% [markdown]
# ## 3 RMSNorm, backward
#
# RMSNorm computes y = x · r · w for each row, with r = 1 / √(mean(x²) + ε); ε is `EPS`. dy is the gradient of y. You
# compute two gradients:
#
# - dx = r · (dy · w − x · r² · mean(dy · w · x)), where the mean is over the row;
# - dw = Σ dy · x · r, where the sum is over all *rows*.
#
# The second term of dx exists because r depends on all elements of the row.
#
# For a row of dx, you need one row of x and dy, but for dw you need all rows. Different programs process these rows, so
# the programs must combine their [partial sums](../glossary.md#partial-sum). With atomics, the order of the additions
# changes from run to run, and so do the last bits of dw. Use two stages instead:
#
# 1. `rms_norm_backward_kernel` is [persistent](../glossary.md#persistent-kernel): P programs run, and program p
#    computes rows p, p + P, p + 2P, … of dx. Over its rows, it accumulates dy · x · r in
#    [registers](../glossary.md#register). At the end, it stores these sums as row p of `partial`.
# 2. `column_sums_kernel` adds the P rows of `partial`.
#
# So x and dy are read only once for both gradients.
#
# At each sum over a row, the [warps](../glossary.md#warp) of a program wait for each other. One
# [reduction](../glossary.md#reduction) of pairs computes both sums with half of the waiting: `tl.reduce((a, b), 0,
# add_pairs)` returns the sum of a and the sum of b. `add_pairs` adds two pairs.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_ptr`, `dy_ptr`, `dx_ptr` | (M, N) | inputs, output; row strides `stride_xm`, `stride_ym`, `stride_dm` |
# | `w_ptr`, `dw_ptr` | (N,) | weight, and its gradient |
# | `partial_ptr` | (P, N) | fp32, contiguous: one row for each program |
#
# <details><summary>Hint 1 for rms_norm_backward</summary>Before the loop, load <code>w</code> and create
# <code>dw = tl.zeros((BLOCK_N,), tl.float32)</code>.</details>
# <details><summary>Hint 2 for rms_norm_backward</summary>Both means of a row are a sum divided by <code>N</code>.
# Elements past the row's end must be 0: load them with <code>other=0.0</code>.</details>
# <details><summary>Hint 3 for rms_norm_backward</summary>In <code>column_sums_kernel</code>, load tiles of (BLOCK_P,
# BLOCK_N) elements in a loop over P, and add <code>tl.sum(tile, 0)</code>.</details>
#
# **Predict.** `partial` is fp32, written once and read once. x, dy and dx have `item` bytes per element. How many bytes
# are moved for `partial`, divided by the bytes moved for x, dy and dx? Leave out w and dw. First write `partial_share`,
# which returns this ratio. Then write the two kernels.


# %% cell="solution" id="partial_share"
def partial_share(M, N, P, item):
    """Bytes moved for partial (P, N), divided by the bytes moved for x, dy and dx (M, N)."""
    ### BEGIN SOLUTION
    return 2 * P * N * 4 / (3 * M * N * item)
    ### END SOLUTION


# %% cell="check" exercise="24_block_kernels/partial_share"
lab.check("24_block_kernels/partial_share")


# %% cell="solution" id="rms_norm_backward_kernel"
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
    ### BEGIN SOLUTION
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
    ### END SOLUTION


@triton.jit
def column_sums_kernel(partial_ptr, dw_ptr, P, N: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr):
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


# %% cell="check" exercise="24_block_kernels/rms_norm_backward"
lab.tiny("24_block_kernels/rms_norm_backward")
lab.check("24_block_kernels/rms_norm_backward")

# %%
lab.claims("24_block_kernels")  # a two-minute quiz: predict each number, then compare
for P in (132, 264, 8192):
    print(f"{P:4} programs, 8192 × 4096 in fp16: partial adds {partial_share(8192, 4096, P, 2):.1%} to the bytes")
for name in ("rope", "swiglu", "swiglu_backward", "rms_norm_backward") if lab.device.has_gpu() else ["swiglu"]:
    print(lab.benchmark(f"24_block_kernels/{name}") or "")

# %% [markdown] cell="manual" id="explain" points=2
# **Explain.** Compare your predictions with the bytes that the checks print, or with measured times. Answer these
# questions:
#
# - RoPE: what share of the kernel's bytes are those of `cos` and `sin`? Why is the kernel not faster when it rotates in
#   place?
# - SwiGLU: what speedup over two eager kernels do the bytes predict?
# - RMSNorm: why does your `partial_share` not depend on N? What is the advantage of a small P, and what is the
#   advantage of a large P?
#
# ### BEGIN SOLUTION
# RoPE: 40 heads of 128 are 5120 elements, which are read and written: 20 480 bytes in fp16. The rows of cos and sin are
# 2 · 64 · 4 = 512 bytes, or 2.5 % of these, and they often come from the L2. In place or not, each element is read once
# and written once. SwiGLU: for each element of out, eager kernels move 2 + 3 = 5 elements, and a fused kernel moves 2 +
# 1 = 3. The predicted speedup is 5 / 3 = 1.67. The backward kernel moves 3 + 2 = 5. RMSNorm: rows of partial are as
# long as rows of x, so N cancels, and the share is 8 · P / (3 · M · item). A small P makes it small. But every SM needs
# a program, and enough rows must be in flight to keep memory busy. With 264 programs and 8192 rows, partial adds 4.3 %;
# with one program per row, it moves more bytes than x, dy and dx.
# ### END SOLUTION

# %% [markdown]
# **Next.**
#
# - Fuse RoPE into the [epilogue](../glossary.md#epilogue) of the matmul that computes q and k, or into an attention
#   kernel.
# - Let the forward pass store r of each row (4 bytes), and let the backward kernel load it. Is this faster?
# - For 5120 columns, `BLOCK_N` is 8192, so 3 of 8 elements are masked. Split each row into 4096 and 1024 columns
#   instead. Is the kernel faster? `python -m bench.norm_backward` compares this and other variants.
#
# **In practice**, [Liger-Kernel](https://github.com/linkedin/Liger-Kernel) has such kernels for training. For RMSNorm,
# its documentation reports {claim: liger_norm} of separate PyTorch operations. `python -m bench.block_kernels` compares
# the course's solution with this library, if you have it.

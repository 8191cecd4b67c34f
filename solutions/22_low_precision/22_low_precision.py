# %% [markdown]
# # Low precision: FP8
#
# **You will** [quantize](../glossary.md#quantization) the rows of a matrix to 8 bits, multiply
# [FP8](../glossary.md#fp8) matrices, and keep small gradients from becoming 0.
#
# **You will learn to**
#
# - derive from the fields of a floating-point format which values it can represent;
# - [round to nearest even](../glossary.md#round-to-nearest-even) with integer arithmetic, which gives the same bits on
#   every machine;
# - choose which values share a [scale](../glossary.md#scale), and where to apply it cheaply.
#
# **You need** `06_elementwise_triton`, `14_matmul_triton`, and the [roofline](../glossary.md#roofline) of unit 05.
#
# About 60 minutes. Works without a GPU; only timings need one.
#
# ## 1 Predict: what can a format represent?
#
# A floating-point format, such as [FP16](../glossary.md#fp16) or [BF16](../glossary.md#bf16), has a sign, `exponent`
# bits and `mantissa` bits. Let bias = 2^(exponent − 1) − 1, and let e and m be the exponent and mantissa fields of a
# code. The value of the code is
#
# - (1 + m / 2^mantissa) · 2^(e − bias) if e is not 0 (a [normal number](../glossary.md#normal-number));
# - (m / 2^mantissa) · 2^(1 − bias) if e is 0 (a [subnormal number](../glossary.md#subnormal)).
#
# The largest exponent field is special. `top` says what it means:
#
# | `top` | formats | codes with all exponent bits set |
# |---|---|---|
# | `"ieee"` | FP16, BF16, [TF32](../glossary.md#tf32), [E5M2](../glossary.md#e5m2) | infinities and NaN |
# | `"nan"` | [E4M3](../glossary.md#e4m3) | numbers; only the last code (all mantissa bits set) is NaN |
# | `"numbers"` | [E2M1](../glossary.md#e2m1) (FP4) | numbers |
#
# `facts` returns the largest value, the smallest normal number, the smallest positive value, and the number of
# significand bits of a normal number, including the implicit leading 1. Try values in the widget: which formats come
# close to 300, and which to 0.001?

# %% cell="setup"

# %% cell="given" id="launchers"
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from labutils import fewer_bits


def quantize_rows(x, q, scale):
    M, N = x.shape
    quantize_rows_kernel[(M,)](x, q, scale, N, x.stride(0), q.stride(0), BLOCK_N=triton.next_power_of_2(N), num_warps=4)


def fp8_matmul(a, b, sa, sb, c):
    (M, K), N = a.shape, b.shape[0]
    a, b = lab.aligned(a), lab.aligned(b)
    gpu = lab.device.current()
    if gpu and gpu.capability >= (8, 9):
        a, b = a.view(torch.float8_e4m3fn), b.view(torch.float8_e4m3fn)
    large = M * N > 2**16
    BLOCK_M, BLOCK_N = (64, 128) if large else (32, 32)
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    fp8_matmul_kernel[grid](
        TensorDescriptor.from_tensor(a, [BLOCK_M, 128]), TensorDescriptor.from_tensor(b, [BLOCK_N, 128]),
        sa, sb, c, M, N, K, *sa.stride(), *sb.stride(), c.stride(0),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, GROUP_M=16, num_warps=4, num_stages=3 if large else 2,
    )  # fmt: skip


lab.widgets.formats(3.14159)


# %% cell="solution" id="facts"
def facts(exponent, mantissa, top):
    """Return (largest value, smallest normal number, smallest positive value, significand bits) of a format."""
    ### BEGIN SOLUTION
    bias = 2 ** (exponent - 1) - 1
    last_power = 2**exponent - 1 - (top == "ieee") - bias
    last_mantissa = 2**mantissa - 1 - (top == "nan")
    largest = (1 + last_mantissa / 2**mantissa) * 2.0**last_power
    return largest, 2.0 ** (1 - bias), 2.0 ** (1 - bias - mantissa), mantissa + 1
    ### END SOLUTION


# %% cell="check" exercise="22_low_precision/facts"
lab.check("22_low_precision/facts")

# %% [markdown]
# ## 2 Quantize rows to E4M3
#
# The largest value of E4M3 is 448, and a value has 4 significand bits. So a matrix is stored as codes and *scales*: x
# is approximately the value of its code times its scale. In this exercise each row has one scale, (largest |x|) / 448,
# so that the row just fits. For a row of zeros the scale is 1.
#
# Round to the nearest value; of two equally near values, take the one with the even code. You can do this with the bits
# of an [fp32](../glossary.md#fp32) number:
#
# - **Normal.** E4M3 keeps 3 of 23 mantissa bits, so `SHIFT` = 20 bits are dropped. Add half of the last kept bit, minus
#   1 if that bit is 0. Then shift: the result is rounded to nearest even. A carry moves into the exponent by itself.
#   Last, correct the bias, which is 127 in fp32 and 7 in E4M3.
# - **Subnormal.** Neighboring subnormal numbers of E4M3 differ by 2^-9. fp32 numbers between 2^14 and 2^15 differ by
#   2^-9 too. So add 2^14, and the fp32 addition rounds. The code is the result's bits minus the bits of 2^14.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_ptr` | (M, N) | input, fp16 |
# | `q_ptr` | (M, N) | output, uint8: E4M3 codes |
# | `scale_ptr` | (M,) | output, fp32 |
#
# One program quantizes one row. `BLOCK_N` ≥ N, so the program can load the row once. Use `tl.div_rn`, which rounds
# correctly. On a GPU, plain `/` may be wrong in the last bit, so that a tie is no longer a tie.
#
# <details><summary>Hint 1</summary><code>y.to(tl.int32, bitcast=True)</code> gives the bits. The last kept bit is
# <code>magnitude >> SHIFT & 1</code>; half of it, minus 1, is <code>(1 << SHIFT - 1) - 1</code>.</details>
# <details><summary>Hint 2</summary>The code's exponent field is above MANTISSA bits, so correcting the bias subtracts
# <code>127 - BIAS << MANTISSA</code>. The bits of 2^p are <code>127 + p << 23</code>.</details>
# <details><summary>Hint 3</summary>Load elements past N as 0, which never changes a maximum of |x|. LAST is the code of
# the largest value. The result is <code>tl.minimum(code, LAST)</code>, with the sign, <code>bits >> 31 & 1</code>, in
# the bit above.</details>


# %% cell="solution" id="quantize_rows_kernel"
@triton.jit
def to_code(y, EXPONENT: tl.constexpr, MANTISSA: tl.constexpr, LAST: tl.constexpr):
    """Return the int32 codes of the values nearest to y (fp32): the even code in a tie, LAST for larger values."""
    BIAS: tl.constexpr = 2 ** (EXPONENT - 1) - 1
    SHIFT: tl.constexpr = 23 - MANTISSA
    bits = y.to(tl.int32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    ### BEGIN SOLUTION
    rounded = magnitude + (1 << SHIFT - 1) - 1 + (magnitude >> SHIFT & 1) >> SHIFT
    normal = rounded - (127 - BIAS << MANTISSA)
    # above 2^ANCHOR, neighboring fp32 numbers differ by the format's smallest value
    ANCHOR: tl.constexpr = 24 - BIAS - MANTISSA
    subnormal = (tl.abs(y) + 2.0**ANCHOR).to(tl.int32, bitcast=True) - (127 + ANCHOR << 23)
    code = tl.where(magnitude < (128 - BIAS << 23), subnormal, normal)
    return tl.minimum(code, LAST) | (bits >> 31 & 1) << EXPONENT + MANTISSA
    ### END SOLUTION


@triton.jit
def quantize_rows_kernel(x_ptr, q_ptr, scale_ptr, N, stride_xm, stride_qm, BLOCK_N: tl.constexpr):
    """Compute q[m] = E4M3(x[m] / scale[m]) for one row m. scale[m] is max(|x[m]|) / 448, or 1 for a row of zeros."""
    row = tl.program_id(0).to(tl.int64)
    offs_n = tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    ### BEGIN SOLUTION
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    amax = tl.max(tl.abs(x), 0)
    scale = tl.where(amax > 0, tl.div_rn(amax, 448.0), 1.0)
    q = to_code(x * tl.div_rn(1.0, scale), EXPONENT=4, MANTISSA=3, LAST=126)
    tl.store(q_ptr + row * stride_qm + offs_n, q.to(tl.uint8), mask=mask_n)
    tl.store(scale_ptr + row, scale)
    ### END SOLUTION


# %% cell="check" exercise="22_low_precision/quantize_rows"
lab.tiny("22_low_precision/quantize_rows")
lab.check("22_low_precision/quantize_rows")

# %%
# Compares your codes with PyTorch's cast and, on Ada (sm_89) and later GPUs, with the hardware's cast instruction.
# Then prints the error of a matrix product whose operands have fewer bits.
fewer_bits.beside_casts(quantize_rows)
fewer_bits.errors()
print(lab.benchmark("22_low_precision/quantize_rows") or "")

# %% [markdown]
# If a check in this unit fails:
#
# | message | common cause |
# |---|---|
# | codes are low by one | bits are truncated: half of the last kept bit was not added |
# | ties away from zero | half was added, but not one less where the last kept bit is 0 |
# | values below the smallest normal number | the formula for normal numbers was used for subnormal ones |
# | the largest x, not the largest \|x\| | `tl.abs` is missing inside `tl.max` |
# | the scale of another block | the scale of a is sa[m, k // 128], that of b is sb[n // 128, k // 128] |
# | missing points for counts | the input is read twice |
#
# If one element is a thousand times larger than the others (an [outlier](../glossary.md#outlier)), the scale of the row
# is a thousand times too large for the others. E4M3 has enough exponents to represent them nevertheless. E2M1 has too
# few, and rounds them to 0. With one scale per block of a row, only the outlier's block suffers, and you can scale each
# block's partial sum separately. The next exercise does that.
#
# ## 3 FP8 matmul with one scale per block of 128
#
# Compute `c = a @ b.T` from quantized a and b, which you load through [tensor
# descriptors](../glossary.md#tensor-descriptor). a has one scale for each 128 elements of a row. b has one scale for
# each 128 × 128 block.
#
# | argument | shape | meaning |
# |---|---|---|
# | `a_desc`, `b_desc` | (M, K), (N, K) | E4M3 codes; `load([row, column])` returns a tile, with 0 past the end |
# | `sa_ptr` | (M, K / 128) | fp32 scales of a; K / 128 is rounded up |
# | `sb_ptr` | (N / 128, K / 128) | fp32 scales of b |
# | `c_ptr` | (M, N) | fp16, output |
#
# One program computes `BLOCK_M` × `BLOCK_N` of c. Each iteration covers 128 elements of K. So a
# [tile](../glossary.md#tile) of a needs one column of scales. A tile of b needs only one scale: 128 is a multiple of
# `BLOCK_N`. Scale the *product* of the iteration in fp32 and add it to `acc`. This also keeps precision: Hopper's
# [tensor cores](../glossary.md#tensor-core) keep only about {claim: fp8_accumulator_bits} bits when they accumulate fp8
# products. In your kernel they accumulate only 128 terms, not all K. GPUs before Ada (sm_89) have no fp8 tensor cores.
# For these, and without a GPU, the given `operand` converts codes to fp16. The products are the same, at fp16 speed.
#
# **Predict.** fp8 has twice the peak of fp16 and half the bytes. Take a tile of 64 × 128 elements of c. In each
# iteration, the tensor cores do 64 × 128 × 128 multiply-adds. Then ordinary instructions scale the product and add it
# to `acc`: 64 × 128 multiply-adds. An [SM](../glossary.md#sm) of an H200 does {claim: sm90_fp8_macs_per_cycle}
# multiply-adds per [cycle](../glossary.md#cycle) on the tensor cores and {claim: sm90_fp32_fmas_per_cycle} with
# ordinary instructions. What fraction of the time is the scaling, if nothing overlaps?
#
# <details><summary>Hint 1</summary>Row m's scale in iteration k is at <code>sa_ptr + offs_m * stride_sam + k *
# stride_sak</code>, where offs_m &lt; M.</details>
# <details><summary>Hint 2</summary>The tile's columns start at n, so its scale of b is in row n // 128 of sb, column
# k.</details>
# <details><summary>Hint 3</summary><code>acc += tl.dot(a, b.T) * (sa * sb)[:, None]</code></details>


# %% cell="solution" id="fp8_matmul_kernel"
@triton.jit
def operand(x):
    """Return a tile for tl.dot: an fp8 tile unchanged, or the values of uint8 codes as fp16."""
    if x.dtype == tl.uint8:  # fp16's bias is 15, E4M3's is 7: multiply by 2^(15 - 7)
        code = x.to(tl.uint16)
        x = ((code & 0x80) << 8 | (code & 0x7F) << 7).to(tl.float16, bitcast=True) * 256
    return x


@triton.jit
def fp8_matmul_kernel(
    a_desc, b_desc, sa_ptr, sb_ptr, c_ptr, M, N, K, stride_sam, stride_sak, stride_sbn, stride_sbk, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """Compute a tile of c[m, n] = sum over k of a[m, k] * sa[m, k // 128] * b[n, k] * sb[n // 128, k // 128]."""
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    # tiles in groups of GROUP_M rows, as in unit 14: programs that run at the same time share what they read
    pid, per_group = tl.program_id(0), GROUP_M * tiles_n
    first = pid // per_group * GROUP_M
    rows = tl.minimum(tiles_m - first, GROUP_M)
    m, n = (first + pid % per_group % rows) * BLOCK_M, pid % per_group // rows * BLOCK_N
    offs_m, offs_n = m + tl.arange(0, BLOCK_M), n + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    ### BEGIN SOLUTION
    for k in range(tl.cdiv(K, 128)):
        a = operand(a_desc.load([m, k * 128]))
        b = operand(b_desc.load([n, k * 128]))
        sa = tl.load(sa_ptr + offs_m * stride_sam + k * stride_sak, mask=offs_m < M, other=0.0)
        sb = tl.load(sb_ptr + n // 128 * stride_sbn + k * stride_sbk)
        acc += tl.dot(a, b.T) * (sa * sb)[:, None]
    ### END SOLUTION
    c_ptrs = c_ptr + offs_m[:, None].to(tl.int64) * stride_cm + offs_n[None, :]
    tl.store(c_ptrs, acc.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


# %% cell="check" exercise="22_low_precision/fp8_matmul"
lab.tiny("22_low_precision/fp8_matmul")
lab.check("22_low_precision/fp8_matmul")

# %% [markdown]
# **Faster.** Your kernel waits for each product before it scales the product, so the tensor cores idle. Our
# [Gluon](../glossary.md#gluon) kernel has three [warpgroups](../glossary.md#warpgroup) with 64 rows each, and one more
# [warp](../glossary.md#warp) for copies. While one warpgroup scales, the others multiply. The last code cell prints the
# kernel's loop and compares its speed with yours. The whole kernel is in `labutils/lessons/fp8_gluon.py`.
#
# ## 4 Gradient underflow and loss scaling
#
# In training, many gradients are smaller than half of fp16's smallest positive value, so rounding makes them 0
# ([underflow](../glossary.md#underflow)). [Loss scaling](../glossary.md#loss-scaling) multiplies the loss, and so every
# gradient, by a power of two, the scale. Before gradient clipping and the weight update, the gradients are divided by
# the scale, in fp32. (Clipping needs the norm of the unscaled gradients.)
#
# 1. `lost`: what fraction of the nonzero gradients becomes 0 when they are scaled, then stored in a format whose
#    smallest positive value is `smallest`?
# 2. `scaler`: too large a scale makes gradients overflow, so the scale must adapt. A step with finite gradients updates
#    the weights. After `interval` such steps in a row, the scale doubles and the count restarts. A step with an inf or
#    NaN updates nothing, halves the scale, and restarts the count. Return, for each step, (the scale used, whether the
#    weights were updated).


# %% cell="solution" id="lost"
def lost(gradients, smallest, scale):
    """Share of the nonzero gradients that scaling by `scale` and rounding to nearest even make 0."""
    ### BEGIN SOLUTION
    there = [g for g in gradients if g != 0]
    gone = [g for g in there if abs(g * scale) <= smallest / 2]  # exactly half is a tie, and 0 is even
    return len(gone) / len(there) if there else 0.0
    ### END SOLUTION


# %% cell="check" exercise="22_low_precision/lost"
lab.check("22_low_precision/lost")


# %% cell="solution" id="scaler"
def scaler(finite, scale, interval):
    """Return (scale, updated) for each step; `finite` says for each step whether its gradients were finite."""
    ### BEGIN SOLUTION
    steps, in_a_row = [], 0
    for ok in finite:
        steps.append((scale, ok))
        in_a_row = in_a_row + 1 if ok else 0
        if not ok:
            scale /= 2
        elif in_a_row == interval:
            scale, in_a_row = scale * 2, 0
    return steps
    ### END SOLUTION


# %% cell="check" exercise="22_low_precision/scaler"
lab.check("22_low_precision/scaler")

# %%
fewer_bits.gradients(lost)
fewer_bits.claims(facts)
fewer_bits.fp8_race(fp8_matmul)

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** FP8 operands made large products faster. Which part of the [roofline](../glossary.md#roofline) did they
# move? What would they gain for a product with M = 1? Why does the kernel scale a sum of 128 products and not each
# operand? What would one scale for every 16 products cost?
#
# ### BEGIN SOLUTION
# FP8 moves both limits: twice the tensor core peak and half the bytes. A product with M = 1 is memory-bound, so it
# gains at most a factor of two. Scaling each operand would turn it back into fp16 or fp32, which the fp8 instructions
# do not take. Scaling the sum costs one multiply-add per 128 products of an element of c. With a scale for every 16, it
# would cost one per 16 products, 8 times as many. For an iteration of a 64 × 128 tile, that takes 64 × 128 × 8 / 128 =
# 512 cycles, compared with 256 cycles on the tensor cores. That is why Blackwell's tensor cores apply the scales of
# small blocks themselves.
# ### END SOLUTION

# %% [markdown]
# **In practice.** FP8 training uses E4M3 for activations and weights. Gradients are in E5M2, or in E4M3 with smaller
# blocks. The weights that the optimizer updates stay in fp32. Scales can come from the maxima of previous steps
# ([delayed scaling](../glossary.md#delayed-scaling)), which saves a pass over the data.
#
# **Next.** `22_sub_byte` goes down to 4 bits. Fuse `quantize_rows` into the preceding norm (unit 13). Write E5M2 with
# `to_code`: what must change for infinity? Round stochastically: add random bits below the cut instead of half.
#
# **Reading**
#
# [Micikevicius et al., FP8 Formats for Deep Learning](https://arxiv.org/abs/2209.05433): why there are two formats,
# E4M3 and E5M2.
#
# [DeepSeek-V3 Technical Report](https://arxiv.org/abs/2412.19437), section 3.3: scales for blocks of 128, and the
# accumulation in about {claim: fp8_accumulator_bits} bits.
#
# [Micikevicius et al., Mixed Precision Training](https://arxiv.org/abs/1710.03740): loss scaling.

# %% [markdown]
# # Low precision: FP8
#
# **You will** [quantize](../glossary.md#quantization) the rows of a matrix to 8 bits, multiply
# [FP8](../glossary.md#fp8) matrices, and keep small gradients from becoming 0.
#
# **You will learn to**
#
# - find which values a floating-point format can represent;
# - [round to nearest even](../glossary.md#round-to-nearest-even) in any format, so that your results are the same bits
#   on every machine;
# - choose which values share a [scale](../glossary.md#scale), and where in a kernel to apply the scale.
#
# **You need** `06_elementwise_triton`, `14_matmul_triton`, and the [roofline](../glossary.md#roofline) of unit 05.
#
# About 60 minutes. You need a GPU only to measure times.
#
# ## 1 Predict: what can a format represent?
#
# A number in a floating-point format, such as [FP16](../glossary.md#fp16) or [BF16](../glossary.md#bf16), is stored as
# a *code*: a sign bit, an exponent field of `exponent` bits, and a mantissa field of `mantissa` bits. Let e be the
# exponent field and m the mantissa field, both as integers, and let bias = 2^(`exponent` − 1) − 1. If the sign bit is
# 0, the value of the code is
#
# - (1 + m / 2^`mantissa`) · 2^(e − bias) if e is not 0 (a [normal number](../glossary.md#normal-number));
# - (m / 2^`mantissa`) · 2^(1 − bias) if e is 0 (a [subnormal number](../glossary.md#subnormal)).
#
# Codes whose exponent bits are all 1 may have another meaning. The argument `top` of the function `facts` says which:
#
# | `top` | formats | codes with all exponent bits set |
# |---|---|---|
# | `"ieee"` | FP16, BF16, [TF32](../glossary.md#tf32), [E5M2](../glossary.md#e5m2) | infinities and NaN |
# | `"nan"` | [E4M3](../glossary.md#e4m3) | NaN if all mantissa bits are set, too; otherwise numbers |
# | `"numbers"` | [E2M1](../glossary.md#e2m1) (FP4) | numbers |
#
# Write `facts`. It returns a format's largest value, its smallest normal number, its smallest positive value, and the
# number of bits of its [significand](../glossary.md#significand) 1 + m / 2^`mantissa`. The widget below shows how
# formats represent a number. Try numbers: which formats have a value close to 300, and which have one close to 0.001?

# %% cell="setup"

# %% cell="given" id="launchers"
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from labutils import fewer_bits


def quantize_rows(x, q, scale):
    M, N = x.shape
    BLOCK_N = triton.next_power_of_2(N)
    warps = min(max(BLOCK_N // 2048, 1), 16)  # 64 elements per thread, if the row is long enough
    quantize_rows_kernel[(M,)](x, q, scale, N, x.stride(0), q.stride(0), BLOCK_N=BLOCK_N, num_warps=warps)


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
# The largest value of E4M3 is 448, and its significand has 4 bits. To use the whole range of E4M3, a matrix is stored
# as codes and *scales*: an element is approximately the value of its code times its scale. In this exercise, each row
# has one scale, (largest |x|) / 448, so that the largest |x| becomes 448. For a row of zeros, the scale is 1.
#
# Round y = x / scale to the nearest value of E4M3; of two equally near values, take the one with the even code. An
# addition in [fp32](../glossary.md#fp32) rounds in the same way, but to the nearest fp32 number. So let an addition
# round: add a power of two, the *anchor*, to |y|. Choose the anchor so that fp32 numbers near the sum are as far apart
# as E4M3 values near |y|. Then the rounded sum is the anchor plus the E4M3 value nearest to |y|:
#
# - **Distance.** From here on, e is the exponent without bias: |y| is at least 2^e and less than 2^(e + 1). Near |y|,
#   neighboring values of E4M3 are 2^(e - 3) apart. E4M3 keeps 3 of the 23 mantissa bits of fp32, so `SHIFT` = 20 bits
#   are dropped. Between 2^(e + 20) and 2^(e + 21), neighboring fp32 numbers are also 2^(e - 3) apart, so the anchor is
#   2^(e + `SHIFT`).
# - **Subnormal.** Below E4M3's smallest normal number, 2^-6, the distance does not become smaller. So use e = -6 there.
# - **Code.** Take the bits of |y| + anchor as an integer, and subtract the bits of the anchor. The difference is the
#   rounded |y|, counted in *units* of 2^(e - 3): 8 to 16, or 0 to 8 if |y| is subnormal. With e = -6, the code is the
#   number of units. If e is larger by 1, the code is larger by 8 for the same number of units.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_ptr` | (M, N) | input, fp16 |
# | `q_ptr` | (M, N) | output, uint8: E4M3 codes |
# | `scale_ptr` | (M,) | output, fp32 |
#
# One program quantizes one row. `BLOCK_N` is at least N, so the program can load the row once. N and the strides are
# constants, as in `13_fusion`. Divide with `tl.div_rn`, which rounds correctly. On a GPU, the last bit of the result of
# `/` may be wrong. If the exact quotient is a *tie*, halfway between two values of E4M3, y may then be rounded to the
# wrong one.
#
# <details><summary>Hint 1</summary><code>magnitude >> 23</code> is the exponent field of |y| in fp32: e + 127. The
# smallest e is 1 − BIAS, so let <code>exponent</code> be the larger of this field and <code>128 -
# BIAS</code>.</details>
# <details><summary>Hint 2</summary>The bits of the anchor are <code>(exponent + SHIFT) << 23</code>;
# <code>.to(tl.float32, bitcast=True)</code> makes these bits a number. The code is units + (exponent − (128 − BIAS)) ·
# 2^MANTISSA, also if rounding up gives 16 units.</details>
# <details><summary>Hint 3</summary>Load elements past N as 0, which cannot change the maximum of |x|. LAST is the code
# of the largest value, so use <code>tl.minimum(code, LAST)</code>. Then put the sign, <code>(bits >> 31) & 1</code>,
# above the exponent field.</details>


# %% cell="solution" id="quantize_rows_kernel"
@triton.jit
def to_code(y, EXPONENT: tl.constexpr, MANTISSA: tl.constexpr, LAST: tl.constexpr):
    """Return int32 codes of the values nearest to y (fp32). Ties go to the even code. No code is larger than LAST."""
    BIAS: tl.constexpr = 2 ** (EXPONENT - 1) - 1
    SHIFT: tl.constexpr = 23 - MANTISSA
    bits = y.to(tl.int32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    ### BEGIN SOLUTION
    exponent = tl.maximum(magnitude >> 23, 128 - BIAS)  # as in fp32: at least that of the smallest normal number
    anchor = exponent + SHIFT << 23
    units = (tl.abs(y) + anchor.to(tl.float32, bitcast=True)).to(tl.int32, bitcast=True) - anchor
    code = (exponent - (128 - BIAS) << MANTISSA) + units
    return tl.minimum(code, LAST) | (bits >> 31 & 1) << EXPONENT + MANTISSA
    ### END SOLUTION


@triton.jit
def quantize_rows_kernel(
    x_ptr, q_ptr, scale_ptr, N: tl.constexpr, stride_xm: tl.constexpr, stride_qm: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
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
# This cell compares your codes with PyTorch's conversion, and on Ada (sm_89) and later GPUs with the GPU's instruction.
# Then it prints the errors of matrix products for several formats of the operands.
fewer_bits.beside_casts(quantize_rows)
fewer_bits.errors()
print(lab.benchmark("22_low_precision/quantize_rows") or "")

# %% [markdown]
# Use this table when a check of part 2 or 3 fails:
#
# | message | common cause |
# |---|---|
# | codes are low by one | the last bits are cut off, without rounding |
# | ties away from zero | half a unit is added, and then bits are cut off; add the anchor instead |
# | values below the smallest normal number | e is not limited to -6 or more |
# | the largest x, not the largest \|x\| | `tl.abs` is missing inside `tl.max` |
# | the scale of another block | (part 3) an index of `sa` or `sb` is wrong: see hints 1 and 2 |
# | a count of bytes marked ✗ | the input is read twice |
#
# If one element is a thousand times larger than the others (an [outlier](../glossary.md#outlier)), the scale of the row
# is a thousand times too large for the others. In E4M3, the other elements still have nonzero values. In E2M1, which
# has too few exponents, they become 0. If each *block* (a group of neighboring elements) has its own scale, an outlier
# changes only the scale of its block.
#
# ## 3 FP8 matmul with one scale per block of 128
#
# Compute `c = a @ b.T` from quantized a and b, which you load through [tensor
# descriptors](../glossary.md#tensor-descriptor). In a, each block of 128 elements of a row has one scale. In b, each
# block of 128 × 128 elements has one scale.
#
# | argument | shape | meaning |
# |---|---|---|
# | `a_desc`, `b_desc` | (M, K), (N, K) | E4M3 codes; `load([row, column])` returns a tile, with 0 past the end |
# | `sa_ptr` | (M, K / 128) | fp32 scales of a; K / 128 is rounded up |
# | `sb_ptr` | (N / 128, K / 128) | fp32 scales of b; both sizes are rounded up |
# | `c_ptr` | (M, N) | fp16, output |
#
# One program computes `BLOCK_M` × `BLOCK_N` elements of c. Each iteration processes 128 columns of a and of b. So a
# [tile](../glossary.md#tile) of a needs one scale per row, a column of `sa`. A tile of b needs only one scale, because
# 128 is a multiple of `BLOCK_N`. In each iteration, multiply the product of the two tiles by the scales in fp32, and
# add the result to `acc`. This also limits rounding errors: when Hopper's [tensor cores](../glossary.md#tensor-core)
# sum fp8 products, they keep only about {claim: fp8_accumulator_bits} bits of the sum. In your kernel, the tensor cores
# sum only 128 products at a time, and `acc` sums the results in fp32.
#
# GPUs before Ada (sm_89) have no fp8 tensor cores. For these GPUs, and without a GPU, the given function `operand`
# converts codes to fp16, which changes no value.
#
# **Predict.** For a tile of 64 × 128 elements of c, the tensor cores do 64 × 128 × 128 multiply-adds in each iteration.
# Then fp32 instructions scale the product and add it to `acc`: 64 × 128 multiply-adds. An [SM](../glossary.md#sm) of an
# H200 does {claim: sm90_fp8_macs_per_cycle} multiply-adds per [cycle](../glossary.md#cycle) on the tensor cores and
# {claim: sm90_fp32_fmas_per_cycle} with fp32 instructions. What fraction of an iteration's time does the scaling take,
# if nothing overlaps?
#
# <details><summary>Hint 1</summary>In iteration <code>k</code>, the scales of a are at
# <code>sa_ptr + offs_m * stride_sam + k * stride_sak</code>. Load them with the mask
# <code>offs_m &lt; M</code>.</details>
# <details><summary>Hint 2</summary>The tile of c starts at column <code>n</code>, which is row <code>n</code> of b. So
# in iteration <code>k</code>, the scale of b is in row <code>n // 128</code> and column <code>k</code> of sb.</details>
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
# **Faster.** While your kernel scales a product, its tensor cores idle. Our [Gluon](../glossary.md#gluon) kernel has
# three [warpgroups](../glossary.md#warpgroup), each with 64 rows of c, and one more [warp](../glossary.md#warp) for
# copies. While one warpgroup scales, the other two multiply. The last code cell prints the loop of our kernel
# (`labutils/lessons/fp8_gluon.py`) and compares its speed with yours.
#
# ## 4 Gradient underflow and loss scaling
#
# In training, many gradients are smaller than half of fp16's smallest positive value, so rounding makes them 0
# ([underflow](../glossary.md#underflow)). [Loss scaling](../glossary.md#loss-scaling) multiplies the loss by a power of
# two, the *loss scale*. This multiplies every gradient by the same factor. Before the weights are updated, the
# gradients are divided by the loss scale, in fp32.
#
# 1. `lost`: the gradients are multiplied by `scale`, and then stored in a format whose smallest positive value is
#    `smallest`. What fraction of the nonzero gradients becomes 0? If there are no nonzero gradients, return 0.
# 2. `scaler`: a loss scale that is too large makes gradients overflow, so adapt it in each step. A step with finite
#    gradients updates the weights. After `interval` such steps, one directly after another, double the scale and count
#    again from 0. A step with an inf or NaN gradient does not update the weights; after it, halve the scale and count
#    again from 0. Return a list with one pair per step: the scale that the step used, and whether it updated the
#    weights.


# %% cell="solution" id="lost"
def lost(gradients, smallest, scale):
    """Return the fraction of nonzero gradients that become 0 when they are scaled and rounded to nearest even."""
    ### BEGIN SOLUTION
    there = [g for g in gradients if g != 0]
    gone = [g for g in there if abs(g * scale) <= smallest / 2]  # exactly half is a tie, and 0 is even
    return len(gone) / len(there) if there else 0.0
    ### END SOLUTION


# %% cell="check" exercise="22_low_precision/lost"
lab.check("22_low_precision/lost")


# %% cell="solution" id="scaler"
def scaler(finite, scale, interval):
    """Return [(scale, updated), …], one pair per step. `finite` is True for each step whose gradients are finite."""
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
lab.claims("22_low_precision")  # a two-minute quiz: predict each number, then compare
fewer_bits.gradients(lost)
fewer_bits.claims(facts)
fewer_bits.fp8_race(fp8_matmul)

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Compare FP8 operands with FP16 operands: by what factor does the [roofline](../glossary.md#roofline)'s
# flat line rise, and by what factor does a kernel's arithmetic intensity rise? How much faster can FP8 make a matmul
# with M = 1? Why does your kernel scale the sum of 128 products instead of the operands? If each sum of 16 products had
# its own scale, how many cycles per iteration would the scaling of a 64 × 128 tile take?
#
# ### BEGIN SOLUTION
# The flat line is the peak of the tensor cores, which doubles. Operands with half the bytes double the intensity, if c
# has few bytes compared with them. The roofline's slope stays the same. A product with M = 1 is memory-bound, so it
# gains at most a factor of two. A scaled operand would be fp16 or fp32, which the fp8 instructions do not accept.
# Scaling the sum takes one multiply-add for each element of c and 128 products; with a scale for 16 products, it would
# take 8. For a 64 × 128 tile, that is 64 × 128 × 8 / 128 = 512 cycles per iteration, compared with 256 cycles on the
# tensor cores. That is why Blackwell's tensor cores apply the scales of small blocks themselves.
# ### END SOLUTION

# %% [markdown]
# **In practice.** FP8 training stores weights and [activations](../glossary.md#activation-function) in E4M3. Gradients
# are in E5M2, or in E4M3 if each block of about 128 elements has its own scale. The weights that the optimizer updates
# stay in fp32. Scales can come from the maxima of previous steps ([delayed scaling](../glossary.md#delayed-scaling)),
# which saves a pass over the data.
#
# **Next.** `22_sub_byte` uses formats of 4 bits. Fuse `quantize_rows` with the RMSNorm of unit 13. Extend `to_code` to
# E5M2: what must change for values that become infinity?
#
# **Reading**
#
# [Micikevicius et al., FP8 Formats for Deep Learning](https://arxiv.org/abs/2209.05433): why there are two formats.
#
# [DeepSeek-V3 Technical Report](https://arxiv.org/abs/2412.19437), section 3.3: scales for blocks of 128, and the
# accumulation in about {claim: fp8_accumulator_bits} bits.
#
# [Micikevicius et al., Mixed Precision Training](https://arxiv.org/abs/1710.03740): loss scaling.

# %% [markdown]
# # Low precision: FP8
#
# **You will** [quantize](../glossary.md#quantization) the rows of a matrix to 8 bits, multiply
# [FP8](../glossary.md#fp8) matrices, and keep small gradients from becoming 0.
#
# **You will learn to**
#
# - derive from the fields of a floating-point format which values it can represent;
# - [round to nearest even](../glossary.md#round-to-nearest-even) to any format, with the same bits on every machine;
# - choose which values share a [scale](../glossary.md#scale), and where in a kernel to apply the scale.
#
# **You need** `06_elementwise_triton`, `14_matmul_triton`, and the [roofline](../glossary.md#roofline) of unit 05.
#
# About 60 minutes. Works without a GPU; only timings need one.
#
# ## 1 Predict: what can a format represent?
#
# A number in a floating-point format, such as [FP16](../glossary.md#fp16) or [BF16](../glossary.md#bf16), is stored as
# a *code*: a sign bit, an exponent field of `exponent` bits, and a mantissa field of `mantissa` bits. Let e and m be
# the two fields, as integers, and bias = 2^(`exponent` − 1) − 1. The value of the code, without its sign, is
#
# - (1 + m / 2^`mantissa`) · 2^(e − bias) if e is not 0 (a [normal number](../glossary.md#normal-number));
# - (m / 2^`mantissa`) · 2^(1 − bias) if e is 0 (a [subnormal number](../glossary.md#subnormal)).
#
# Codes whose exponent bits are all 1 are special. The argument `top` of your function says what these codes mean:
#
# | `top` | formats | codes with all exponent bits set |
# |---|---|---|
# | `"ieee"` | FP16, BF16, [TF32](../glossary.md#tf32), [E5M2](../glossary.md#e5m2) | infinities and NaN |
# | `"nan"` | [E4M3](../glossary.md#e4m3) | numbers, except that the code with all mantissa bits set is NaN |
# | `"numbers"` | [E2M1](../glossary.md#e2m1) (FP4) | numbers |
#
# Your function `facts` returns a format's largest value, smallest normal number, smallest positive value, and number of
# bits of the [significand](../glossary.md#significand) 1 + m / 2^`mantissa`. Try values in the widget: which formats
# come close to 300, and which to 0.001?

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
    warps = min(max(BLOCK_N // 2048, 1), 16)  # 64 elements per thread, where a row has that many
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
# The largest value of E4M3 is 448, and a value has 4 significand bits. So a matrix is stored as codes and *scales*: an
# element is approximately the value of its code, times its scale. In this exercise each row has one scale, (largest
# |x|) / 448, so that the largest element becomes 448. For a row of zeros the scale is 1.
#
# Round y = x / scale to the nearest value; of two equally near values, take the one with the even code. An addition in
# [fp32](../glossary.md#fp32) rounds in the same way, but to the numbers of fp32. So add a power of two, the *anchor*,
# that is so large that neighboring numbers of fp32 are as far apart as those of E4M3 near |y|:
#
# - **Distance.** If |y| is at least 2^e and less than 2^(e + 1), neighboring values of E4M3 are 2^(e - 3) apart. E4M3
#   keeps 3 of the 23 mantissa bits of fp32, so `SHIFT` = 20 bits are dropped. Between 2^(e + 20) and 2^(e + 21), fp32
#   numbers are 2^(e - 3) apart too, so the anchor is 2^(e + `SHIFT`).
# - **Subnormal.** Below E4M3's smallest normal number, 2^-6, the distance no longer shrinks: e is at least -6.
# - **Code.** The bits of |y| + anchor, minus the bits of the anchor, are |y| in units of this distance: 8 to 16, or 0
#   to 8 if |y| is subnormal. The smallest normal number is 8 units with e = -6, and its code is 8. Each increase of e
#   by 1 adds 8.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_ptr` | (M, N) | input, fp16 |
# | `q_ptr` | (M, N) | output, uint8: E4M3 codes |
# | `scale_ptr` | (M,) | output, fp32 |
#
# One program quantizes one row. `BLOCK_N` is at least N, so the program can load the row once. Use `tl.div_rn`, which
# rounds correctly. On a GPU, plain `/` may be wrong in the last bit, so that a tie is no longer a tie.
#
# <details><summary>Hint 1</summary><code>magnitude >> 23</code> is the exponent field of |y|, e + 127. The smallest e
# is 1 − BIAS, so the field is at least <code>128 - BIAS</code>.</details>
# <details><summary>Hint 2</summary>The bits of the anchor are <code>(exponent + SHIFT) << 23</code>;
# <code>.to(tl.float32, bitcast=True)</code> makes these bits a number. The code is units + (exponent − (128 − BIAS)) ·
# 2^MANTISSA. If rounding gives 16 units, this is still the right code.</details>
# <details><summary>Hint 3</summary>Load elements past N as 0, which never changes a maximum of |x|. LAST is the code of
# the largest value, so limit the code by <code>tl.minimum(code, LAST)</code>. Then put the sign, <code>(bits >> 31) &
# 1</code>, above the exponent field.</details>


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
# This cell compares your codes with PyTorch's conversion and, on Ada (sm_89) and later GPUs, a conversion instruction.
# Then it prints the error of a matrix product whose operands have fewer bits.
fewer_bits.beside_casts(quantize_rows)
fewer_bits.errors()
print(lab.benchmark("22_low_precision/quantize_rows") or "")

# %% [markdown]
# Use this table when a check of part 2 or 3 fails:
#
# | message | common cause |
# |---|---|
# | codes are low by one | bits are cut off without rounding |
# | ties away from zero | half a unit was added and bits were cut off; the addition of the anchor takes the even code |
# | values below the smallest normal number | the exponent of subnormal numbers was not limited |
# | the largest x, not the largest \|x\| | `tl.abs` is missing inside `tl.max` |
# | the scale of another block | (part 3) an index of `sa` or `sb` is wrong: see hints 1 and 2 |
# | a count of bytes marked ✗ | the input is read twice |
#
# If one element is a thousand times larger than the others (an [outlier](../glossary.md#outlier)), the scale of the row
# is a thousand times too large for the other elements. E4M3 has enough exponents to represent these elements. E2M1 has
# too few exponents, so these elements become 0. If each *block* (group of neighboring elements) has a scale, an outlier
# changes only the scale of its own block.
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
# | `sb_ptr` | (N / 128, K / 128) | fp32 scales of b; both sizes are rounded up |
# | `c_ptr` | (M, N) | fp16, output |
#
# One program computes `BLOCK_M` × `BLOCK_N` elements of c. Each iteration covers 128 columns of a and b. So a
# [tile](../glossary.md#tile) of a needs one column of scales. A tile of b needs only one scale, because 128 is a
# multiple of `BLOCK_N`. Scale the *product* of the iteration in fp32 and add it to `acc`. This also limits rounding
# errors. When Hopper's [tensor cores](../glossary.md#tensor-core) add fp8 products, they keep only about
# {claim: fp8_accumulator_bits} bits of the sum. In your kernel, they add 128 products; `acc` adds the rest in fp32.
#
# GPUs before Ada (sm_89) have no fp8 tensor cores. For these GPUs, and without a GPU, the given `operand` converts
# codes to fp16, which changes no value.
#
# **Predict.** fp8 has twice the peak of fp16 and half the bytes. Take a tile of 64 × 128 elements of c. In each
# iteration, the tensor cores do 64 × 128 × 128 multiply-adds. Then fp32 instructions scale the product and add it to
# `acc`: 64 × 128 multiply-adds. An [SM](../glossary.md#sm) of an H200 does {claim: sm90_fp8_macs_per_cycle}
# multiply-adds per [cycle](../glossary.md#cycle) on the tensor cores and {claim: sm90_fp32_fmas_per_cycle} with fp32
# instructions. What fraction of the time does scaling take, if nothing overlaps?
#
# <details><summary>Hint 1</summary>In iteration <code>k</code>, the scales of a are at
# <code>sa_ptr + offs_m * stride_sam + k * stride_sak</code>. Load them with the mask
# <code>offs_m &lt; M</code>.</details>
# <details><summary>Hint 2</summary>The tile of c starts at column <code>n</code>. So in iteration <code>k</code>, the
# scale of b is in row <code>n // 128</code> and column <code>k</code> of sb.</details>
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
# [warp](../glossary.md#warp) for copies. While one warpgroup scales, the other two multiply. The last code cell prints
# the loop of our kernel (`labutils/lessons/fp8_gluon.py`) and compares both speeds.
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
# 2. `scaler`: too large a scale makes gradients overflow, so the scale must adapt. A step with finite gradients updates
#    the weights. After `interval` such steps in a row, the scale doubles and the count restarts. A step with an inf or
#    NaN updates nothing, halves the scale, and restarts the count. Return a list with one pair per step: the scale
#    used, and whether the weights were updated.


# %% cell="solution" id="lost"
def lost(gradients, smallest, scale):
    """Return the fraction of nonzero gradients that become 0, if they are scaled and rounded to nearest even."""
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
fewer_bits.gradients(lost)
fewer_bits.claims(facts)
fewer_bits.fp8_race(fp8_matmul)

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** By which factors do FP8 operands, compared with FP16, raise the [roofline](../glossary.md#roofline)'s
# flat line and a kernel's arithmetic intensity? How much faster can FP8 make a product with M = 1? Why does the kernel
# scale a sum of 128 products, and not each operand? If every 16 of these products had their own scale, how many cycles
# would the scaling of a 64 × 128 tile take per iteration?
#
# ### BEGIN SOLUTION
# The flat line is the peak of the tensor cores, which doubles. Operands of half the bytes double the intensity, if the
# bytes of c are few. The slope stays the same. A product with M = 1 is memory-bound, so it gains at most a factor of
# two. Scaling each operand would turn it back into fp16 or fp32, which the fp8 instructions do not take. Scaling the
# sum costs one multiply-add per 128 products of an element of c. With a scale for every 16 products, it would cost 8
# times as many. For an iteration of a 64 × 128 tile, that takes 64 × 128 × 8 / 128 = 512 cycles, compared with 256
# cycles on the tensor cores. That is why Blackwell's tensor cores apply the scales of small blocks themselves.
# ### END SOLUTION

# %% [markdown]
# **In practice.** FP8 training uses E4M3 for weights and [activations](../glossary.md#activation-function). Gradients
# are in E5M2, or in E4M3 if each block of about 128 elements has a scale. The weights that the optimizer updates stay
# in fp32. Scales can come from the maxima of previous steps ([delayed scaling](../glossary.md#delayed-scaling)), which
# saves a pass over the data.
#
# **Next.** `22_sub_byte` uses formats of 4 bits. Fuse `quantize_rows` with the RMSNorm of unit 13. Let `to_code` also
# write E5M2: what must change for infinity?
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

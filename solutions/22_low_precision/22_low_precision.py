# %% [markdown]
# # Compute with fewer bits
#
# **You will** round rows to 8 bits and blocks to 4, multiply 8-bit matrices at twice the speed of fp16, multiply fp16
# with weights of 4 bits, and keep small gradients from becoming 0.
#
# **You will learn to**
# - say from a format's fields what it can hold, and what it loses;
# - round to nearest even with integer arithmetic, the same bits on every machine;
# - choose which values share a scale, and put the scale where it costs little;
# - predict what fewer bits save, in bytes and in time.
#
# **You need** `06_elementwise_triton`, `14_matmul_triton`, and the roofline of unit 05.
#
# About 90 minutes. Works without a GPU; only times need one.

# %% cell="setup"

# %% [markdown]
# ## 1 Predict: what can a format hold?
#
# A floating-point format has a sign, `exponent` bits and `mantissa` bits. With bias = 2^(exponent − 1) − 1 a code means
#
# - (1 + m / 2^mantissa) · 2^(e − bias), a *normal* number, if its exponent field e is not 0;
# - (m / 2^mantissa) · 2^(1 − bias), a *subnormal* number, if e is 0.
#
# The largest exponent field means something else in each family. `top` says what:
#
# | `top` | formats | codes with all exponent bits set |
# |---|---|---|
# | `"ieee"` | FP16, BF16, TF32, E5M2 | infinities and NaN |
# | `"nan"` | E4M3 | numbers; only the last code, all mantissa bits set too, is NaN |
# | `"numbers"` | E2M1, of FP4 | numbers |
#
# Return the largest value, the smallest normal number, the smallest positive value, and how many bits a significand of
# a normal number has, with the leading 1 that is not stored. Try values in the widget: which formats hold 300? 0.001?

# %% cell="given"
lab.widgets.formats(3.14159)


# %% cell="solution" id="facts"
def facts(exponent, mantissa, top):
    """(largest value, smallest normal number, smallest positive value, bits of a significand) of a format."""
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
# ## 2 Round to E4M3, row by row
#
# E4M3 ends at 448 and has 4 bits of significand. So a matrix is stored as codes and *scales*: x ≈ code · scale. Here
# each row has one, scale = (largest |x|) / 448, so that the row just fits; 1 for a row of zeros.
#
# Rounding is to the nearest code, and of two equally near ones to the even one. In the bits of an fp32 number:
#
# - **Normal.** E4M3 keeps 3 of 23 mantissa bits, so `SHIFT` = 20 bits go. Adding half of the last bit that stays, less
#   1 if that bit is 0, and then shifting, rounds to nearest even: a carry moves into the exponent by itself. Then
#   exchange the bias: fp32 has 127.
# - **Subnormal.** The steps are all of one size there, 2^-9. fp32 numbers from 2^14 to 2^15 have just these steps. So
#   add 2^14, and the fp32 adder rounds; the code is how many steps the bits lie above those of 2^14.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_ptr` | (M, N) | fp16 |
# | `q_ptr` | (M, N) | uint8, output: E4M3 codes |
# | `scale_ptr` | (M,) | fp32, output |
#
# One program quantizes one row, and reads it once: `BLOCK_N` ≥ N. Use `tl.div_rn`, which rounds correctly: plain `/` on
# a GPU may be off in the last bit, and a tie is then no tie.
#
# <details><summary>Hint 1</summary><code>y.to(tl.int32, bitcast=True)</code> gives the bits. The last bit that stays is
# <code>magnitude >> SHIFT & 1</code>; half of it, less 1, is <code>(1 << SHIFT - 1) - 1</code>.</details>
# <details><summary>Hint 2</summary>The exponent field of the code lies above MANTISSA bits, so exchanging the bias
# subtracts <code>127 - BIAS << MANTISSA</code>. The bits of the power of two 2^p are
# <code>127 + p << 23</code>.</details>
# <details><summary>Hint 3</summary>Lanes past N are loaded as 0, which no maximum of |x| notices. A code is
# <code>tl.minimum(code, LAST)</code>, with the sign, <code>bits >> 31 & 1</code>, shifted in front.</details>

# %% cell="solution" id="quantize_rows_kernel"
import torch
import triton
import triton.language as tl


@triton.jit
def to_code(y, EXPONENT: tl.constexpr, MANTISSA: tl.constexpr, LAST: tl.constexpr):
    """Codes, as int32, of the values nearest to y (fp32); ties to the even code, larger values to the code LAST."""
    BIAS: tl.constexpr = 2 ** (EXPONENT - 1) - 1
    SHIFT: tl.constexpr = 23 - MANTISSA
    bits = y.to(tl.int32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    ### BEGIN SOLUTION
    rounded = magnitude + (1 << SHIFT - 1) - 1 + (magnitude >> SHIFT & 1) >> SHIFT
    normal = rounded - (127 - BIAS << MANTISSA)
    # next to 2^ANCHOR the steps of fp32 are the format's smallest value
    ANCHOR: tl.constexpr = 24 - BIAS - MANTISSA
    subnormal = (tl.abs(y) + 2.0**ANCHOR).to(tl.int32, bitcast=True) - (127 + ANCHOR << 23)
    code = tl.where(magnitude < (128 - BIAS << 23), subnormal, normal)
    return tl.minimum(code, LAST) | (bits >> 31 & 1) << EXPONENT + MANTISSA
    ### END SOLUTION


@triton.jit
def quantize_rows_kernel(x_ptr, q_ptr, scale_ptr, N, stride_xm, stride_qm, BLOCK_N: tl.constexpr):
    """q[m] = E4M3(x[m] / scale[m]), scale[m] = max(|x[m]|) / 448, or 1 for a row of zeros; one program, one row."""
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


# %% cell="given" id="quantize_rows"
def quantize_rows(x, q, scale):
    M, N = x.shape
    quantize_rows_kernel[(M,)](x, q, scale, N, x.stride(0), q.stride(0), BLOCK_N=triton.next_power_of_2(N), num_warps=4)


lab.tiny("22_low_precision/quantize_rows")

# %% cell="check" exercise="22_low_precision/quantize_rows"
lab.check("22_low_precision/quantize_rows")

# %% [markdown]
# When a check of this unit fails:
#
# | what it says | a common cause |
# |---|---|
# | codes are low by one | bits are cut off: half of the last bit that stays was not added |
# | ties away from zero | half was added, but not one less where the last bit is even |
# | values below the smallest normal number | the formula for normal numbers was used for subnormal ones |
# | the largest x, not the largest \|x\| | `tl.abs` is missing in front of `tl.max` |
# | the scale of another block | scales of blocks go with k, those of rows with m, those of columns with n // 128 |
# | points for counts are missing | the input is read twice |
#
# Your bits against a cast that the library does, and that an instruction does from Ada (sm_89) on. Then: how far off
# are products of matrices whose operands were stored in fewer bits?

# %%
from labutils import fewer_bits

fewer_bits.beside_casts(quantize_rows)
fewer_bits.errors()
print(lab.benchmark("22_low_precision/quantize_rows") or "")

# %% [markdown]
# An element a thousand times the others makes the scale of its row a thousand times too large for them. E4M3 has
# exponents of its own and forgives that; E2M1 has only three, and loses the row. With a scale for each block only the
# outlier's block suffers, and the sum of each block can be scaled on its own: hence the next exercise.
#
# ## 3 Multiply: a scale for each block of 128
#
# `c = a @ b.T`, with a scale for each 128 elements of a row of a, and for each 128 × 128 elements of b:
#
# | argument | shape | meaning |
# |---|---|---|
# | `a_desc`, `b_desc` | (M, K), (N, K) | E4M3 codes; `load([row, column])` gives a tile, with 0 outside |
# | `sa_ptr` | (M, K / 128) | fp32 scales of a; K / 128 is rounded up |
# | `sb_ptr` | (N / 128, K / 128) | fp32 scales of b |
# | `c_ptr` | (M, N) | fp16, output |
#
# One program computes `BLOCK_M` × `BLOCK_N` of c. A step along K takes 128 elements, so a tile has one column of scales
# of a, and one scale of b (`BLOCK_N` divides 128): scale the *product* of the step, in fp32, and add it to `acc`. That
# is also what keeps sums precise: Hopper's tensor cores keep only about 14 bits of a sum of fp8 products, and here such
# a sum has 128 terms, not K. The given `operand` makes fp16 of codes where tensor cores have no fp8 (before sm_89, and
# without a GPU): the products are the same, at fp16's speed.
#
# **Predict.** fp8 has twice the peak of fp16, and half the bytes. Each step adds a scaled tile to `acc` with ordinary
# instructions: 64 × 128 multiply-adds beside 64 × 128 × 128 of the tensor cores, which do 4096 in a cycle on an SM of
# an H200, where the others do 128. What share of the time is that, if nothing overlaps?
#
# <details><summary>Hint 1</summary>Row m's scale in step k is at
# <code>sa_ptr + offs_m * stride_sam + k * stride_sak</code>, where offs_m &lt; M.</details>
# <details><summary>Hint 2</summary>The tile's columns begin at n, so its scale of b is in row n // 128.</details>
# <details><summary>Hint 3</summary><code>acc += tl.dot(a, b.T) * (sa * sb)[:, None]</code></details>


# %% cell="solution" id="fp8_matmul_kernel"
@triton.jit
def operand(x):
    """A tile for tl.dot: fp8 as it is; codes (uint8) as the same values in fp16."""
    if x.dtype == tl.uint8:  # E4M3's fields at fp16's places are off by the difference of the biases, 15 - 7
        code = x.to(tl.uint16)
        x = ((code & 0x80) << 8 | (code & 0x7F) << 7).to(tl.float16, bitcast=True) * 256
    return x


@triton.jit
def fp8_matmul_kernel(
    a_desc, b_desc, sa_ptr, sb_ptr, c_ptr, M, N, K, stride_sam, stride_sak, stride_sbn, stride_sbk, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """c[m, n] = sum over k of a[m, k] * sa[m, k // 128] * b[n, k] * sb[n // 128, k // 128]; one program, one tile."""
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    # tiles in groups of GROUP_M rows, as in unit 14: programs that run side by side share what they read
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


# %% cell="given" id="fp8_matmul"
from triton.tools.tensor_descriptor import TensorDescriptor


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


lab.tiny("22_low_precision/fp8_matmul")

# %% cell="check" exercise="22_low_precision/fp8_matmul"
lab.check("22_low_precision/fp8_matmul")

# %% [markdown]
# **Faster.** Your kernel waits for each product before it scales it, and tensor cores idle meanwhile. The kernel below,
# in Gluon, has three groups of four warps with 64 rows each and one more warp that copies: while one group scales, the
# others multiply. The loop of a group is printed; `labutils/lessons/fp8_gluon.py` has all of it.

# %%
fewer_bits.fp8_race(fp8_matmul)

# %% [markdown]
# ## 4 Four bits: E2M1 in blocks
#
# Four bits hold 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives. So few values need a scale for few elements, and the
# scale has to be small too:
#
# | | block | scale of a block | code of the scale | whole scale |
# |---|---|---|---|---|
# | NVFP4 | 16 | E4M3 | `to_code(amax / (6 · tensor_scale))` | scale · `tensor_scale` |
# | MXFP4 | 32 | E8M0: a power of two | power + 127; 0 for a block of zeros | 2^power |
#
# `tensor_scale` is one fp32 number that brings the scales of all blocks into E4M3's range. MX takes the power that
# brings the largest |x| to [4, 8): fp32's exponent field of amax, less 2. What lies above 6 becomes 6.
#
# Divide by the *stored* scale, not by the one that was to be stored: that is the one that whoever reads the codes has.
# Two codes share a byte, the even element in the low four bits.
#
# First the way back. One program converts `BLOCK` blocks: `codes_ptr` is (G, SIZE / 2), uint8, `scales_ptr` (G,),
# uint8, `x_ptr` (G, SIZE), fp16, all contiguous.
#
# <details><summary>Hint 1</summary>Put exponent and mantissa at fp32's places, <code>code << SHIFT</code>: the number
# is off by the difference of the biases, a factor of 2^(127 − BIAS), for subnormal codes too.</details>
# <details><summary>Hint 2</summary><code>tl.join(low, high)</code> of (BLOCK, SIZE / 2) gives (BLOCK, SIZE / 2, 2), and
# <code>tl.reshape</code> (BLOCK, SIZE). <code>tl.split</code> undoes a join.</details>
# <details><summary>Hint 3</summary>A block of zeros, or one whose scale rounds to 0, must not divide by 0: take
# <code>tl.where(scale > 0, tl.div_rn(1.0, scale), 0.0)</code> and multiply.</details>


# %% cell="solution" id="dequantize_kernel"
@triton.jit
def from_code(code, EXPONENT: tl.constexpr, MANTISSA: tl.constexpr):
    """The values, fp32, of codes (int32)."""
    BIAS: tl.constexpr = 2 ** (EXPONENT - 1) - 1
    SHIFT: tl.constexpr = 23 - MANTISSA
    ### BEGIN SOLUTION
    magnitude = code & (1 << EXPONENT + MANTISSA) - 1
    value = (magnitude << SHIFT).to(tl.float32, bitcast=True) * 2.0 ** (127 - BIAS)
    return tl.where(code >> EXPONENT + MANTISSA != 0, -value, value)
    ### END SOLUTION


@triton.jit
def dequantize_kernel(
    codes_ptr, scales_ptr, tensor_scale, x_ptr, G, SIZE: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """x[g, i] = E2M1(code of element i of block g) * E4M3(scales[g]) * tensor_scale"""
    offs_g = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    offs_i, offs_b = tl.arange(0, SIZE), tl.arange(0, SIZE // 2)
    mask_g = offs_g < G
    ### BEGIN SOLUTION
    byte = tl.load(codes_ptr + offs_g[:, None] * (SIZE // 2) + offs_b[None, :], mask=mask_g[:, None], other=0)
    byte = byte.to(tl.int32)
    code = tl.reshape(tl.join(byte & 15, byte >> 4), (BLOCK, SIZE))
    scale = from_code(tl.load(scales_ptr + offs_g, mask=mask_g, other=0).to(tl.int32), EXPONENT=4, MANTISSA=3)
    x = from_code(code, EXPONENT=2, MANTISSA=1) * (scale * tensor_scale)[:, None]
    tl.store(x_ptr + offs_g[:, None] * SIZE + offs_i[None, :], x.to(tl.float16), mask=mask_g[:, None])
    ### END SOLUTION


# %% cell="given" id="dequantize"
def dequantize(codes, scales, tensor_scale, x):
    G, SIZE = x.shape
    dequantize_kernel[(triton.cdiv(G, 64),)](codes, scales, tensor_scale, x, G, SIZE=SIZE, BLOCK=64)


# %% cell="check" exercise="22_low_precision/dequantize"
lab.check("22_low_precision/dequantize")


# %% cell="solution" id="fp4_kernel"
@triton.jit
def fp4_kernel(
    x_ptr, tensor_scale, codes_ptr, scales_ptr, G, SIZE: tl.constexpr, MX: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """codes, scales = E2M1 in blocks of SIZE: NVFP4, or with MX the powers of two of MXFP4; BLOCK blocks a program."""
    offs_g = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    offs_i, offs_b = tl.arange(0, SIZE), tl.arange(0, SIZE // 2)
    mask_g = offs_g < G
    x = tl.load(x_ptr + offs_g[:, None] * SIZE + offs_i[None, :], mask=mask_g[:, None], other=0.0).to(tl.float32)
    ### BEGIN SOLUTION
    amax = tl.max(tl.abs(x), 1)
    if MX:
        scale_code = tl.maximum((amax.to(tl.int32, bitcast=True) >> 23) - 2, 0)
        scale = (scale_code << 23).to(tl.float32, bitcast=True)
    else:
        scale_code = to_code(tl.div_rn(amax, 6 * tensor_scale), EXPONENT=4, MANTISSA=3, LAST=126)
        scale = from_code(scale_code, EXPONENT=4, MANTISSA=3) * tensor_scale
    inverse = tl.where(scale > 0, tl.div_rn(1.0, tl.where(scale > 0, scale, 1.0)), 0.0)
    code = to_code(x * inverse[:, None], EXPONENT=2, MANTISSA=1, LAST=7)
    low, high = tl.split(tl.reshape(code, (BLOCK, SIZE // 2, 2)))
    codes_ptrs = codes_ptr + offs_g[:, None] * (SIZE // 2) + offs_b[None, :]
    tl.store(codes_ptrs, (low | high << 4).to(tl.uint8), mask=mask_g[:, None])
    tl.store(scales_ptr + offs_g, scale_code.to(tl.uint8), mask=mask_g)
    ### END SOLUTION


# %% cell="given" id="fp4"
def nvfp4(x, tensor_scale, codes, scales):
    G, SIZE = x.shape
    fp4_kernel[(triton.cdiv(G, 64),)](x, tensor_scale, codes, scales, G, SIZE=SIZE, MX=False, BLOCK=64)


def mxfp4(x, codes, scales):
    G, SIZE = x.shape
    fp4_kernel[(triton.cdiv(G, 32),)](x, 1.0, codes, scales, G, SIZE=SIZE, MX=True, BLOCK=32)


lab.tiny("22_low_precision/nvfp4")

# %% cell="check" exercise="22_low_precision/nvfp4"
lab.check("22_low_precision/nvfp4")

# %% cell="check" exercise="22_low_precision/mxfp4"
lab.check("22_low_precision/mxfp4")

# %% [markdown]
# ## 5 Weights of 4 bits, activations in fp16
#
# A model that makes one token after another reads every weight for each. With few tokens at a time (M rows) that is all
# that counts: bytes of weights. Here a weight is (code − 8) · scale with a code of 4 bits, and 128 weights of a row
# share an fp16 scale.
#
# **Predict.** How many times faster than fp16 can a product with such weights be at M = 1? And at which M do you expect
# the tensor cores, not the weights, to set the time?
#
# | argument | shape | meaning |
# |---|---|---|
# | `a_ptr` | (M, K) | fp16 |
# | `words_ptr` | (N, K / 8) | int32: nibble j (bits 4j to 4j + 3) of word i is the code of weight 8i + j |
# | `scales_ptr` | (N, K / 128) | fp16 |
# | `out_ptr` | (M, N) | fp16, output: a times the weights' transpose |
#
# One program computes `BLOCK_N` columns of out for all M rows, and reads each word once. The tile of weights is the
# *first* operand of `tl.dot`, and `a` the second: tensor cores take at least 64 rows of the first, but as few as 8
# columns of the second. So `acc` is (BLOCK_N, BLOCK_M). M is padded to 16, 32 or 64.
#
# <details><summary>Hint 1</summary><code>tl.join(words, words >> 16)</code> is (BLOCK_N, 16, 2): a new last axis with
# two values. Two more joins, by 8 and by 4 bits, and a <code>tl.reshape</code> give (BLOCK_N, 128).</details>
# <details><summary>Hint 2</summary>The last axis runs fastest, so it must be the join by 4 bits. Mask with & 15 at the
# end: the sign of a word travels with shifts.</details>
# <details><summary>Hint 3</summary>As in part 3, scale the sum of a group, not each weight:
# <code>acc += tl.dot(weights, a) * scale[:, None]</code>.</details>


# %% cell="solution" id="w4a16_kernel"
@triton.jit
def unpack(words, ROWS: tl.constexpr):
    """Weights (ROWS, 128), fp16, code - 8, of words (ROWS, 16)."""
    ### BEGIN SOLUTION
    x = tl.join(words, words >> 16)
    x = tl.join(x, x >> 8)
    x = tl.join(x, x >> 4)
    return (tl.reshape(x & 15, (ROWS, 128)) - 8).to(tl.float16)
    ### END SOLUTION


@triton.jit
def w4a16_kernel(
    a_ptr, words_ptr, scales_ptr, out_ptr, M, N, groups, stride_am, stride_wn, stride_sn, stride_om,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """out[m, n] = sum over k of a[m, k] * (code[n, k] - 8) * scales[n, k // 128], for BLOCK_N columns n, all rows m."""
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_m, offs_w, offs_k = tl.arange(0, BLOCK_M), tl.arange(0, 16), tl.arange(0, 128)
    mask_n, mask_m = offs_n < N, offs_m < M
    acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    ### BEGIN SOLUTION
    words_ptrs = words_ptr + offs_n[:, None].to(tl.int64) * stride_wn + offs_w[None, :]
    a_ptrs = a_ptr + offs_m[None, :] * stride_am + offs_k[:, None]
    for group in range(groups):
        words = tl.load(words_ptrs + group * 16, mask=mask_n[:, None], other=0)
        a = tl.load(a_ptrs + group * 128, mask=mask_m[None, :], other=0.0)
        scale = tl.load(scales_ptr + offs_n * stride_sn + group, mask=mask_n, other=0.0).to(tl.float32)
        acc += tl.dot(unpack(words, BLOCK_N), a) * scale[:, None]
    ### END SOLUTION
    out_ptrs = out_ptr + offs_m[None, :] * stride_om + offs_n[:, None]
    tl.store(out_ptrs, acc.to(tl.float16), mask=mask_m[None, :] & mask_n[:, None])


# %% cell="given" id="w4a16"
def w4a16(a, words, scales, out):
    (M, K), N = a.shape, len(words)
    BLOCK_N = 64 if N > 512 else 32
    w4a16_kernel[(triton.cdiv(N, BLOCK_N),)](
        a, words, scales, out, M, N, K // 128, a.stride(0), words.stride(0), scales.stride(0), out.stride(0),
        BLOCK_M=max(16, triton.next_power_of_2(M)), BLOCK_N=BLOCK_N, num_warps=4, num_stages=3,
    )  # fmt: skip


lab.tiny("22_low_precision/w4a16")

# %% cell="check" exercise="22_low_precision/w4a16"
lab.check("22_low_precision/w4a16")

# %%
fewer_bits.w4_race(w4a16)

# %% [markdown]
# ## 6 Gradients that become 0
#
# In training, gradients are small: many lie below half of the smallest positive value of fp16, and rounding makes them
# 0. **Loss scaling** multiplies the loss by a power of two, so every gradient, and divides again in fp32 before the
# weights change (and before gradients are clipped: a norm of scaled gradients means nothing).
#
# 1. `lost`: which share of the gradients that are not 0 becomes 0 when they are stored in a format whose smallest
#    positive value is `smallest`, after scaling?
# 2. `scaler`: too large a scale overflows. So it adapts. A step whose gradients are all finite changes the weights;
#    after `interval` such steps in a row the scale doubles, and counting starts again. A step with an inf or NaN
#    changes nothing, halves the scale, and counting starts again. Return, for each step, (the scale it used, whether
#    the weights were changed).


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
    """[(scale, stepped)] of the steps; `finite` says of each whether its gradients were finite."""
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

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Weights of 4 bits may make M = 1 almost four times as fast, and large M slower than fp16. fp8 operands
# made large products faster, and would make M = 1 only twice as fast. Say for each which roof it moved. Why does the
# fp8 kernel scale a sum of 128 products and not each operand, and what would it cost to have a scale for every 16?
#
# ### BEGIN SOLUTION
# 4-bit weights move fewer bytes but are multiplied in fp16: only the memory roof moves, so it pays while the intensity
# is below the ridge; past it, unpacking is work on top of the same products. fp8 moves both: twice the peak of the
# tensor cores, and half the bytes. Scaling each operand would make fp16 or fp32 numbers of them again, which the fp8
# instructions do not take. Scaling the sum costs one multiply-add for each 128 products of an element of c. With a
# scale for every 16 it would be one for 16: 8 times as many, 64 × 128 × 8 / 128 = 512 cycles beside 256 of the tensor
# cores for a step of a tile of 64 × 128. That is why Blackwell's tensor cores apply the scales of small blocks
# themselves.
# ### END SOLUTION

# %% [markdown]
# **In practice.** Training in fp8 uses E4M3 for activations and weights, E5M2 or E4M3 with finer scales for gradients,
# and a master copy of the weights in fp32. Scales may come from the last steps' largest values (delayed scaling) and so
# cost no extra pass. Blackwell multiplies NVFP4 and MX formats with their scales in one instruction, in Triton
# `tl.dot_scaled`. Weights of 4 bits come from GPTQ or AWQ, which choose codes by the error of the *output*.
#
# **Next levels.** Fuse `quantize_rows` into the norm of unit 13 in front of it. Write E5M2 with `to_code`: what must
# change for infinity? Round stochastically: add random bits below the cut in place of half.
#
# **Read on**
#
# [Micikevicius et al., FP8 Formats for Deep Learning](https://arxiv.org/abs/2209.05433): why two formats.
#
# [DeepSeek-V3 Technical Report](https://arxiv.org/abs/2412.19437), section 3.3: blocks of 128, and 14 bits of a sum.
#
# [OCP Microscaling](https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf): MX formats.
#
# [Marlin](https://arxiv.org/abs/2408.11743): weights of 4 bits at almost four times the speed, up to a batch of 32.
#
# [Micikevicius et al., Mixed Precision Training](https://arxiv.org/abs/1710.03740): loss scaling.

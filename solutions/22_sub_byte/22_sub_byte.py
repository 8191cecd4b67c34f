# %% [markdown]
# # Sub-byte formats: FP4 and 4-bit weights
#
# **You will** [quantize](../glossary.md#quantization) blocks of values to 4 bits, convert the codes back to values, and
# multiply fp16 activations with 4-bit weights.
#
# **You will learn to**
#
# - pack two 4-bit codes into a byte, or eight into a 32-bit word, and unpack them in
#   [registers](../glossary.md#register);
# - give each small block of values its own [scale](../glossary.md#block-scale), stored in 8 bits;
# - predict how many bytes, and how much time, 4-bit weights save.
#
# **You need** `22_low_precision`: formats, rounding, scales.
#
# About 60 minutes. You need a GPU only to measure times.
#
# ## 1 Four bits: E2M1 in blocks
#
# The 4-bit format [E2M1](../glossary.md#e2m1) represents 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives. With so few
# values, only elements of similar size can share a scale, so the blocks are small. So there are many scales, which are
# stored in only 8 bits each. An element x is approximately the value of its code times the *full scale* of its block.
# Two formats are common. In the table, `amax` is the largest |x| of a block, and `power` is the integer for which 4 ≤
# amax / 2^power < 8:
#
# | format | elements per block | format of the block scale | code of the block scale | full scale |
# |---|---|---|---|---|
# | [NVFP4](../glossary.md#nvfp4) | 16 | E4M3 | the code of amax / (6 · `tensor_scale`) | block scale · `tensor_scale` |
# | [MXFP4](../glossary.md#mxfp4) | 32 | [E8M0](../glossary.md#e8m0) | power + 127; 0 for a block of zeros | 2^power |
#
# `tensor_scale` is one fp32 number for the whole tensor, chosen so that all block scales are in E4M3's range. In MXFP4,
# the code of the scale is the exponent field of amax in fp32, minus 2. E2M1's largest value is 6, so elements with |x|
# / scale above 6 are stored as ±6.
#
# First write `from_code`, which converts codes of one format to fp32 values. Then write `dequantize_kernel`, which
# calls it to convert NVFP4 blocks to values. All arrays are contiguous. There are G blocks with `SIZE` elements each;
# one program converts `BLOCK` of these blocks.
#
# | argument | shape | meaning |
# |---|---|---|
# | `codes_ptr` | (G, SIZE / 2) | input, uint8: two codes per byte, the even element in the low four bits |
# | `scales_ptr` | (G,) | input, uint8: E4M3 codes of the block scales |
# | `x_ptr` | (G, SIZE) | output, fp16 |
#
# <details><summary>Hint 1</summary>In <code>from_code</code>, shift the exponent and mantissa fields by SHIFT bits to
# their positions in fp32. If you read these bits as fp32, the value is too small by a factor of 2^(127 − BIAS), because
# the biases differ. For subnormal codes, the factor is the same.</details>
# <details><summary>Hint 2</summary>Let <code>low</code> and <code>high</code> be the two codes of each byte, with the
# shape (BLOCK, SIZE / 2). Then <code>tl.join(low, high)</code> has the shape (BLOCK, SIZE / 2, 2).
# <code>tl.reshape</code> makes it (BLOCK, SIZE).</details>
# <details><summary>Hint 3</summary>The full scale is
# <code>from_code(scale, EXPONENT=4, MANTISSA=3) * tensor_scale</code>.</details>

# %% cell="setup"

# %% cell="given" id="launchers"
import triton
import triton.language as tl

from labutils import fewer_bits


def dequantize(codes, scales, tensor_scale, x):
    G, SIZE = x.shape
    dequantize_kernel[(triton.cdiv(G, 64),)](codes, scales, tensor_scale, x, G, SIZE=SIZE, BLOCK=64)


def nvfp4(x, tensor_scale, codes, scales):
    G, SIZE = x.shape
    fp4_kernel[(triton.cdiv(G, 64),)](x, tensor_scale, codes, scales, G, SIZE=SIZE, MX=False, BLOCK=64)


def mxfp4(x, codes, scales):
    G, SIZE = x.shape
    fp4_kernel[(triton.cdiv(G, 32),)](x, 1.0, codes, scales, G, SIZE=SIZE, MX=True, BLOCK=32)


def w4a16(a, words, scales, out):
    (M, K), N = a.shape, len(words)
    BLOCK_N = 64 if N > 512 else 32
    w4a16_kernel[(triton.cdiv(N, BLOCK_N),)](
        a, words, scales, out, M, N, K // 128, a.stride(0), words.stride(0), scales.stride(0), out.stride(0),
        BLOCK_M=max(16, triton.next_power_of_2(M)), BLOCK_N=BLOCK_N, num_warps=4, num_stages=3,
    )  # fmt: skip


lab.widgets.formats(3.14159)


# %% cell="solution" id="dequantize_kernel"
@triton.jit
def from_code(code, EXPONENT: tl.constexpr, MANTISSA: tl.constexpr):
    """Return the fp32 values of int32 codes."""
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
    """Compute x[g, i] = E2M1(code of element i of block g) * E4M3(scales[g]) * tensor_scale for BLOCK blocks g."""
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


# %% cell="check" exercise="22_sub_byte/dequantize"
lab.check("22_sub_byte/dequantize")

# %% [markdown]
# ## 2 Quantize to NVFP4 and MXFP4
#
# Write `fp4_kernel`. If `MX` is true, it quantizes to MXFP4, otherwise to NVFP4. Compute the full scale from the
# *stored* block scale, which is rounded to 8 bits, and divide the elements by it: dequantization multiplies by the same
# full scale.
#
# Copy `to_code` from `22_low_precision`. Call it for the E2M1 codes of the elements, and for the E4M3 codes of the
# block scales.
#
# <details><summary>Hint 1 for nvfp4 and mxfp4</summary>To separate even and odd elements, reshape the codes to (BLOCK,
# SIZE / 2, 2) and call <code>tl.split</code>, the inverse of <code>tl.join</code>.</details>
# <details><summary>Hint 2 for nvfp4 and mxfp4</summary>The scale of a block can be 0. Do not divide by 0: multiply by
# <code>tl.where(scale > 0, tl.div_rn(1.0, scale), 0.0)</code>.</details>
# <details><summary>Hint 3 for mxfp4</summary><code>amax.to(tl.int32, bitcast=True) >> 23</code> is the exponent field
# of amax.</details>


# %% cell="solution" id="fp4_kernel"
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
def fp4_kernel(
    x_ptr, tensor_scale, codes_ptr, scales_ptr, G, SIZE: tl.constexpr, MX: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Quantize BLOCK blocks of SIZE elements to codes and scales of MXFP4 (with MX) or NVFP4."""
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


# %% cell="check" exercise="22_sub_byte/nvfp4"
lab.tiny("22_sub_byte/nvfp4")
lab.check("22_sub_byte/nvfp4")

# %% cell="check" exercise="22_sub_byte/mxfp4"
lab.check("22_sub_byte/mxfp4")

# %% [markdown]
# ## 3 Weights in 4 bits, activations in fp16
#
# A linear layer multiplies activations (M rows, one per token) by weights. A model that generates one token at a time
# reads every weight for each token. If M is small, the time depends only on the bytes of the weights. In this exercise,
# a weight is (code − 8) · scale with a 4-bit code; each block of 128 weights in a row has one fp16 scale. This
# [weight-only quantization](../glossary.md#weight-only-quantization) is called W4A16: weights have 4 bits, and
# activations have 16.
#
# **Predict.** At M = 1, how much faster can this product be than one with fp16 weights? Above which M do the [tensor
# cores](../glossary.md#tensor-core) take longer than the loads of the 4-bit weights? Assume a [ridge
# point](../glossary.md#ridge-point) of 200 FLOPs per byte.
#
# | argument | shape | meaning |
# |---|---|---|
# | `a_ptr` | (M, K) | input, fp16: the activations |
# | `words_ptr` | (N, K / 8) | input, int32: bits 4·j to 4·j + 3 of word i are the code of weight 8·i + j |
# | `scales_ptr` | (N, K / 128) | input, fp16 |
# | `out_ptr` | (M, N) | output, fp16: a times the transposed weights |
#
# One program computes `BLOCK_N` columns of out for all M rows and reads each word once. The tile of weights is the
# *first* operand of `tl.dot`, and `a` is the second, so `acc` has the shape (BLOCK_N, BLOCK_M). The reason for this
# order is Hopper's tensor core instruction, [WGMMA](../glossary.md#wgmma): its first operand must have 64 rows, but its
# second operand needs only 8 columns, and M is often small. `BLOCK_M` is M, rounded up to 16, 32 or 64.
#
# <details><summary>Hint 1</summary><code>tl.join(words, words >> 16)</code> has the shape (BLOCK_N, 16, 2), with a new
# last axis. Join the result x with x >> 8, and then the new result y with y >> 4. <code>tl.reshape</code> gives the
# shape (BLOCK_N, 128).</details>
# <details><summary>Hint 2</summary>Adjacent codes of a word are 4 bits apart, so the join with the shift by 4 must be
# the last one. Apply <code>& 15</code> after all shifts, because <code>&gt;&gt;</code> copies the sign bit.</details>
# <details><summary>Hint 3</summary>As in the FP8 matmul, do not scale each weight; scale the partial sum over 128
# weights: <code>acc += tl.dot(weights, a) * scale[:, None]</code>.</details>


# %% cell="solution" id="w4a16_kernel"
@triton.jit
def unpack(words, ROWS: tl.constexpr):
    """Return code - 8 for each code in words (ROWS, 16), as an fp16 tile (ROWS, 128)."""
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
    """Compute out[m, n] = sum over k of a[m, k] * (code[n, k] - 8) * scales[n, k // 128] for BLOCK_N columns n."""
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


# %% cell="check" exercise="22_sub_byte/w4a16"
lab.tiny("22_sub_byte/w4a16")
lab.check("22_sub_byte/w4a16")

# %%
lab.claims("22_sub_byte")  # a two-minute quiz: predict each number, then compare
fewer_bits.w4_race(w4a16)

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Compared with fp16 weights, 4-bit weights can make a product almost four times as fast for M = 1, but
# they make a product slower for large M. The [roofline](../glossary.md#roofline) has two limits, memory and compute:
# which one do 4-bit weights raise? Why do they not help for large M?
#
# ### BEGIN SOLUTION
# 4-bit weights have fewer bytes but are multiplied in fp16, so they raise only the memory limit. This helps while the
# intensity is below the ridge point, as for M = 1. Above the ridge point, the tensor cores are the bottleneck: they do
# the same products as with fp16 weights, and unpacking is extra work.
# ### END SOLUTION

# %% [markdown]
# **In practice.** Methods such as GPTQ or AWQ choose the codes of 4-bit weights so that the error of the layer's
# *output* is small. Blackwell's tensor cores multiply NVFP4 and MX formats, including their scales, in one instruction.
# In Triton, you call `tl.dot_scaled`.
#
# **Next.** `23_hunt` hides bugs in kernels like these. Let 64 or 32 weights share a scale: how many bytes per weight do
# the scales then take? Store the weights in the order in which the tensor cores need them, as the Marlin kernel does.
# The last code cell compares your kernel with a kernel that does this.
#
# **Reading**
#
# [OCP Microscaling](https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf): the
# definition of the MX formats.
#
# [Marlin](https://arxiv.org/abs/2408.11743): a kernel for 4-bit weights. The paper reports, compared with fp16 weights,
# {claim: marlin_speedup}.

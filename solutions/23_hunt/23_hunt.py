# %% [markdown]
# # Bug hunt: a fused chain and low precision
#
# **You will** find one bug in each of three kernels. First the kernels show only what they do: cases that fail, values,
# counts. You name line and cause, then you fix the kernel.
#
# **You will learn to**
# - choose inputs that tell the elements of a table apart;
# - choose inputs of both signs;
# - compare neighbors in a result.
#
# **You need** `21_launch_overhead`, `22_low_precision` and `22_sub_byte`. About 45 minutes. You need no GPU.
#
# Do not run the checks of the last section before you have named the bugs: they name causes, too.

# %% cell="setup"

# %% cell="given" id="launchers"
import triton
import triton.language as tl


def chain(x, coef, out, BLOCK=1024):
    n = x.numel()
    chain_kernel[(triton.cdiv(n, BLOCK),)](x, coef, out, n, STEPS=len(coef), BLOCK=BLOCK)


def quantize_rows(x, q, scale):
    M, N = x.shape
    BLOCK_N = triton.next_power_of_2(N)
    warps = min(max(BLOCK_N // 2048, 1), 16)  # 64 elements per thread, if the row is long enough
    quantize_rows_kernel[(M,)](x, q, scale, N, x.stride(0), q.stride(0), BLOCK_N=BLOCK_N, num_warps=warps)


@triton.jit
def to_code(y, EXPONENT: tl.constexpr, MANTISSA: tl.constexpr, LAST: tl.constexpr):
    """Return int32 codes of the values nearest to y (fp32). Ties go to the even code. No code is larger than LAST."""
    BIAS: tl.constexpr = 2 ** (EXPONENT - 1) - 1
    SHIFT: tl.constexpr = 23 - MANTISSA
    bits = y.to(tl.int32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    exponent = tl.maximum(magnitude >> 23, 128 - BIAS)  # as in fp32: at least that of the smallest normal number
    anchor = exponent + SHIFT << 23
    units = (tl.abs(y) + anchor.to(tl.float32, bitcast=True)).to(tl.int32, bitcast=True) - anchor
    code = (exponent - (128 - BIAS) << MANTISSA) + units
    return tl.minimum(code, LAST) | (bits >> 31 & 1) << EXPONENT + MANTISSA


def dequantize(codes, scales, tensor_scale, x):
    G, SIZE = x.shape
    dequantize_kernel[(triton.cdiv(G, 64),)](codes, scales, tensor_scale, x, G, SIZE=SIZE, BLOCK=64)


@triton.jit
def from_code(code, EXPONENT: tl.constexpr, MANTISSA: tl.constexpr):
    """Return the fp32 values of int32 codes."""
    BIAS: tl.constexpr = 2 ** (EXPONENT - 1) - 1
    SHIFT: tl.constexpr = 23 - MANTISSA
    magnitude = code & (1 << EXPONENT + MANTISSA) - 1
    value = (magnitude << SHIFT).to(tl.float32, bitcast=True) * 2.0 ** (127 - BIAS)
    return tl.where(code >> EXPONENT + MANTISSA != 0, -value, value)


# %% [markdown]
# ## 1 A chain of updates
#
# One kernel does a hundred updates x = a · x + b in place of a hundred launches. Its author tested it with the same a
# and b in all steps, both 0.5.


# %% cell="hunt" id="chain_kernel" exercise="23_hunt/chain"
@triton.jit
def chain_kernel(x_ptr, coef_ptr, out_ptr, n, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """Update BLOCK elements by x = coef[i, 0] * x + coef[i, 1], for all i from 0 to STEPS - 1, and store them.

    x_ptr, out_ptr  (n,)
    coef_ptr        (STEPS, 2)
    """
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ### BEGIN SOLUTION
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    for i in range(STEPS):
        a = tl.load(coef_ptr + 2 * i)
        b = tl.load(coef_ptr + 2 * i + 1)
        x = a * x + b
    tl.store(out_ptr + offs, x, mask=mask)
    ### END SOLUTION


# %%
lab.evidence("23_hunt/chain")
lab.tiny("23_hunt/chain")

# %% [markdown]
# ## 2 Rows in 8 bits
#
# The kernel quantizes rows to E4M3 with one scale for each row. It was written for the outputs of a ReLU. `to_code` is
# right.


# %% cell="hunt" id="quantize_rows_kernel" exercise="23_hunt/quantize_rows"
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


# %%
lab.evidence("23_hunt/quantize_rows")

# %% [markdown]
# ## 3 Numbers of 4 bits
#
# A byte holds two numbers of 4 bits, and 16 numbers share a scale. The kernel computes the numbers in fp16. Sums over a
# block are right.


# %% cell="hunt" id="dequantize_kernel" exercise="23_hunt/dequantize"
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


# %%
lab.evidence("23_hunt/dequantize")
lab.tiny("23_hunt/dequantize")

# %% [markdown]
# ## 4 Name the bugs
#
# Fill in `bug`: for each hunt, the line of its kernel's cell where the bug is, and the cause. Lines count from 1 (View
# → Show Line Numbers). If several lines can be changed to fix the bug, any of them is right.
#
# The causes to choose from:
#
# - wrong stride
# - sign ignored
# - swapped halves
# - division by zero
# - rounding to nearest missing
# - loop ends early
# - wrong block's scale
# - missing mask
#
# <details><summary>Hint 1</summary><code>chain</code>: write down which elements of coef the first two iterations
# read.</details>
# <details><summary>Hint 2</summary><code>quantize_rows</code>: which scale does a row of negative numbers
# get?</details>
# <details><summary>Hint 3</summary><code>dequantize</code>: compare two neighbors of your result with the expected
# ones.</details>


# %% cell="solution" id="bug"
def bug(hunt):
    """Return the line and the cause of a hunt's bug, such as {"line": 12, "cause": "…"}.

    hunt  "chain" or "quantize_rows" or "dequantize"
    """
    ### BEGIN SOLUTION
    found = {
        "chain": {"line": 12, "cause": "wrong stride"},
        "quantize_rows": {"line": 8, "cause": "sign ignored"},
        "dequantize": {"line": 11, "cause": "swapped halves"},
    }
    return found[hunt]
    ### END SOLUTION


# %% cell="check" exercise="23_hunt/bug"
lab.check("23_hunt/bug")

# %% [markdown]
# ## 5 Fix them
#
# Change the kernels in their cells above, run the cells, and check. A fix needs few characters or lines; the rest of
# the kernel is right.

# %% cell="check" exercise="23_hunt/chain"
lab.check("23_hunt/chain")

# %% cell="check" exercise="23_hunt/quantize_rows"
lab.check("23_hunt/quantize_rows")

# %% cell="check" exercise="23_hunt/dequantize"
lab.check("23_hunt/dequantize")

# %% [markdown]
# **Next.** `23_many_gpus` computes on several GPUs.
#
# **In practice** keep each bug that you fix as a test: the smallest case that showed it.

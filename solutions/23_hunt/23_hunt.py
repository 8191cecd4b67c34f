# %% [markdown]
# # Bug hunt: a fused chain and low precision
#
# **You will** find one bug in each of four kernels. First the kernels show only what they do: cases that fail, values,
# counts. You name line and cause, then you fix the kernel.
#
# **You will learn to**
# - choose inputs that tell the elements of a table apart;
# - choose inputs of both signs;
# - compare neighbors in a result;
# - choose sizes beyond one block of scales.
#
# **You need** `21_launch_overhead`, `22_low_precision` and `22_sub_byte`. About 60 minutes. You need no GPU.
#
# Do not run the checks of the last section before you have named the bugs: they name causes, too.

# %% cell="setup"

# %% cell="given" id="launchers"
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


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


@triton.jit
def operand(x):
    """Return a tile for tl.dot: an fp8 tile unchanged, or the values of uint8 codes as fp16."""
    if x.dtype == tl.uint8:  # fp16's bias is 15, E4M3's is 7: multiply by 2^(15 - 7)
        code = x.to(tl.uint16)
        x = ((code & 0x80) << 8 | (code & 0x7F) << 7).to(tl.float16, bitcast=True) * 256
    return x


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
# ## 4 A matmul in fp8
#
# Both operands are E4M3 codes. A block of 128 elements of a row of a has a scale, and a block of 128 × 128 elements of
# b has one. `operand` is right. Layers with at most 128 outputs lose no accuracy.


# %% cell="hunt" id="fp8_matmul_kernel" exercise="23_hunt/fp8_matmul"
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


# %%
lab.evidence("23_hunt/fp8_matmul")

# %% [markdown]
# ## 5 Name the bugs
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
# <details><summary>Hint 4</summary><code>fp8_matmul</code>: which is the first wrong column? Which of the two scales
# changes there?</details>


# %% cell="solution" id="bug"
def bug(hunt):
    """Return the line and the cause of a hunt's bug, such as {"line": 12, "cause": "…"}.

    hunt  "chain", "quantize_rows", "dequantize", or "fp8_matmul"
    """
    ### BEGIN SOLUTION
    found = {
        "chain": {"line": 12, "cause": "wrong stride"},
        "quantize_rows": {"line": 8, "cause": "sign ignored"},
        "dequantize": {"line": 11, "cause": "swapped halves"},
        "fp8_matmul": {"line": 19, "cause": "wrong block's scale"},
    }
    return found[hunt]
    ### END SOLUTION


# %% cell="check" exercise="23_hunt/bug"
lab.check("23_hunt/bug")

# %% [markdown]
# ## 6 Fix them
#
# Change the kernels in their cells above, run the cells, and check. A fix needs few characters or lines; the rest of
# the kernel is right.

# %% cell="check" exercise="23_hunt/chain"
lab.check("23_hunt/chain")

# %% cell="check" exercise="23_hunt/quantize_rows"
lab.check("23_hunt/quantize_rows")

# %% cell="check" exercise="23_hunt/dequantize"
lab.check("23_hunt/dequantize")

# %% cell="check" exercise="23_hunt/fp8_matmul"
lab.check("23_hunt/fp8_matmul")

# %% [markdown]
# **Next.** `23_many_gpus` computes on several GPUs.
#
# **In practice** keep each bug that you fix as a test: the smallest case that showed it.

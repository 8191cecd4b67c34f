# %% [markdown]
# # Capstone: a transformer block from your own kernels
#
# **You will** compute the [forward pass](../glossary.md#forward-pass) of a whole [transformer
# block](../glossary.md#transformer-block) with kernels that you wrote, compare the block's speed with `torch.compile`,
# and keep a [work log](../glossary.md#work-log) of what you tried.
#
# **You will learn to**
#
# - fuse norms, RoPE, residuals and SwiGLU into the [epilogues](../glossary.md#epilogue) of matmuls;
# - choose an order of the weight matrices' rows that makes an epilogue fast;
# - optimize by prediction and measurement.
#
# **You need** `14_matmul_triton_persistent`, `17_flash_attention` and `24_block`. About 120 minutes. You need a GPU
# only to measure times.
#
# ## 1 The plan
#
# For the standard block, `partition` of `24_block` finds five kernels: one for each matmul, and one for attention. The
# norms, RoPE, SwiGLU and residuals are [fused](../glossary.md#fusion) into the matmuls:
#
# | kernel | computes | result |
# |---|---|---|
# | `linear_kernel`, `ROPE` | queries, keys and values of norm(x); rotates queries and keys | z (S, (H + 2 HK) · D) |
# | `attention_kernel` | causal [attention](../glossary.md#attention) of z | mixed (S, H · D) |
# | `linear_kernel`, `RESIDUAL` | y = x + mixed · projᵀ | y (S, C) |
# | `linear_kernel`, `SWIGLU` | hidden = swiglu(norm(y) · gate_upᵀ) | hidden (S, F) |
# | `linear_kernel`, `RESIDUAL` | out = y + hidden · downᵀ | out (S, C) |
#
# S is the number of tokens of all sequences, and C is the width of a token. H and HK are the numbers of query and key
# heads, with D elements each; F is the width of `hidden`.
#
# One part of the norms is not fused: the sums of squares. To compute them, the loop along K would need the elements of
# x in [registers](../glossary.md#register), but Hopper's [tensor cores](../glossary.md#tensor-core) read x directly
# from [shared memory](../glossary.md#shared-memory). So two more launches, of `factor_kernel`, compute the norm's
# *factor* 1 / √(mean(x²) + ε) for each row of x and of y. Each launch reads its input once, and stores 4 bytes per row.
#
# **Weights.** When a model is loaded, its weights can be changed to make the kernels simpler. The weights that `block`
# gets are already changed:
#
# - A norm multiplies each column of x by a weight. Instead, the same column of the next matmul's matrix was multiplied
#   by this weight, once, in advance. So norm(x) in the block is only x times the factor of the row.
# - RoPE needs both elements of a pair. In the interleaved layout (`24_block_kernels`), these are columns 2i and 2i + 1,
#   which are in the same tile. The rows of `qkv`, which give the columns of z, are in this order. Attention gives the
#   same result, because queries and keys have the same order.
# - SwiGLU needs gate and up. The rows of `gate_up` alternate between gate and up, so that columns 2i and 2i + 1 of the
#   product are the gate and up of hidden column i.
#
# **Predict** for 8 sequences of 2048 tokens, C = 4096, H = 32, HK = 8, D = 128 and F = 14 336, with 2 bytes per
# element:
#
# - How many FLOPs does the block need, and how many milliseconds at 700 TFLOP/s? A [causal](../glossary.md#causal-mask)
#   mask halves the FLOPs of attention.
# - How many bytes does the fusion of SwiGLU save? How many milliseconds does it save at 4 TB/s? Answer both questions
#   for a residual and for RoPE, too.
# - Suppose that `torch.compile` calls a library for every matmul, and that the library's kernels are as fast as yours.
#   How many times as fast as `torch.compile` can your block be?

# %% cell="setup"

# %% cell="given" id="kernels"
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from labutils import capstone

EPS, LOG2_E = tl.constexpr(1e-6), tl.constexpr(1.4426950408889634)
ROPE, RESIDUAL, SWIGLU = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)


@triton.jit
def factor_kernel(x_ptr, factor_ptr, N: tl.constexpr, stride_xm: tl.constexpr, BLOCK_N: tl.constexpr):
    """factor[m] = 1 / sqrt(mean(x[m]²) + EPS): the first half of `rms_norm` of unit 13. One program handles one row."""
    row, offs = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * stride_xm + offs, mask=offs < N, other=0.0).to(tl.float32)
    tl.store(factor_ptr + row, tl.rsqrt(tl.sum(x * x) / N + EPS))


@triton.jit
def join(s, v, m, l, acc, scale):
    """One tile of online softmax: unit 17."""
    m_new = tl.maximum(m, tl.max(s, 1) * scale)
    p = tl.exp2(s * scale - m_new[:, None])
    factor = tl.exp2(m - m_new)
    return m_new, l * factor + tl.sum(p, 1), tl.dot(p.to(v.dtype), v, acc * factor[:, None])


@triton.jit
def attention_kernel(
    q_desc, kv_desc, out_desc, T, scale, H, HK, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """`flash_kernel` of unit 17, causal. A row of q_desc and kv_desc has H heads of q, HK of k, and HK of v.

    q_desc, kv_desc (B, T, (H + 2 HK) D), out_desc (B, T, H D). One program computes BLOCK_M queries of one head.
    """
    first, head, sequence = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_M, tl.program_id(1), tl.program_id(2)
    k_at = (H + head // (H // HK)) * D
    v_at = k_at + HK * D
    offs_m, offs_n = first + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    q = q_desc.load([sequence, first, head * D]).reshape(BLOCK_M, D)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l, acc = tl.zeros((BLOCK_M,), tl.float32), tl.zeros((BLOCK_M, D), tl.float32)
    whole = first // BLOCK_N * BLOCK_N
    for start in tl.range(0, whole, BLOCK_N):
        k = kv_desc.load([sequence, start, k_at]).reshape(BLOCK_N, D)
        v = kv_desc.load([sequence, start, v_at]).reshape(BLOCK_N, D)
        m, l, acc = join(tl.dot(q, k.T), v, m, l, acc, scale)
    for start in tl.range(whole, tl.minimum(first + BLOCK_M, T), BLOCK_N):
        k = kv_desc.load([sequence, start, k_at]).reshape(BLOCK_N, D)
        v = kv_desc.load([sequence, start, v_at]).reshape(BLOCK_N, D)
        seen = offs_m[:, None] >= start + offs_n[None, :]
        m, l, acc = join(tl.where(seen, tl.dot(q, k.T), -float("inf")), v, m, l, acc, scale)
    out_desc.store([sequence, first, head * D], (acc / l[:, None]).to(out_desc.dtype).reshape(1, BLOCK_M, D))


@triton.jit
def halves_of(acc):
    """The left and the right half of a tile's columns."""
    return tl.split(acc.reshape(acc.shape[0], 2, acc.shape[1] // 2).permute(0, 2, 1))


@triton.jit
def pairs_of(tile):
    """The even and the odd columns of a tile."""
    return tl.split(tile.reshape(tile.shape[0], tile.shape[1] // 2, 2))


@triton.jit
def from_pairs(a, b):
    """The inverse of pairs_of."""
    return tl.join(a, b).reshape(a.shape[0], 2 * a.shape[1])


@triton.jit
def tile_of(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Return (row, column) of a tile, in the grouped ordering of unit 14."""
    first = tile // (GROUP_M * tiles_n) * GROUP_M
    rows, within = tl.minimum(tiles_m - first, GROUP_M), tile % (GROUP_M * tiles_n)
    return first + within % rows, within // rows


def factors(x):
    factor, (M, N) = torch.empty(len(x), dtype=torch.float32, device=x.device), x.shape
    BLOCK_N = triton.next_power_of_2(N)
    factor_kernel[(M,)](x, factor, N, x.stride(0), BLOCK_N=BLOCK_N, num_warps=min(max(BLOCK_N // 512, 1), 16))
    return factor


def attention(z, mixed, T, H, HK, D):
    gpu, large = lab.device.current(), T >= 256
    BLOCK_M, BLOCK_N = (128, 64) if large else (32, 16)
    z, out = z.view(-1, T, z.shape[1]), mixed.view(-1, T, mixed.shape[1])
    q_desc, kv_desc = (TensorDescriptor.from_tensor(z, [1, rows, D]) for rows in (BLOCK_M, BLOCK_N))
    attention_kernel[(triton.cdiv(T, BLOCK_M), H, len(z))](
        q_desc, kv_desc, TensorDescriptor.from_tensor(out, [1, BLOCK_M, D]), T, LOG2_E.value * D**-0.5, H, HK, D=D,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=4 if gpu and gpu.capability[0] >= 9 else 8, num_stages=2,
    )  # fmt: skip


def linear_config(M, N, epilogue):
    gpu = lab.device.current()
    if M * N < 2**16:
        return dict(BLOCK_M=16, BLOCK_N=64, BLOCK_K=32, GROUP_M=4, FLATTEN=False, num_warps=4, num_stages=2)
    if gpu and gpu.capability[0] == 9:
        stages = 4 if epilogue == SWIGLU.value else 3  # the other epilogues need more shared memory
        return dict(BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, GROUP_M=8, FLATTEN=True, num_warps=8, num_stages=stages)
    return dict(BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, GROUP_M=8, FLATTEN=False, num_warps=4, num_stages=3)


def linear(x, w, out, epilogue, factor=None, residual=None, cos=None, sin=None, rotated=0):
    """Launch linear_kernel: out = epilogue(x @ w.T). Arguments that an epilogue does not use may be left out."""
    (M, K), N, gpu = x.shape, len(w), lab.device.current()
    config = linear_config(M, N, epilogue)
    m, n, k = config["BLOCK_M"], config["BLOCK_N"], config["BLOCK_K"]
    programs = min(gpu.sms if gpu else 4, triton.cdiv(M, m) * triton.cdiv(N, n))
    x_desc, w_desc = TensorDescriptor.from_tensor(x, [m, k]), TensorDescriptor.from_tensor(w, [n, k])
    residual = out if residual is None else residual
    out_desc, residual_desc = (TensorDescriptor.from_tensor(t, [m, n // 2]) for t in (out, residual))
    T, P = (1, 1) if cos is None else cos.shape
    factor, cos, sin = (x if t is None else t for t in (factor, cos, sin))
    linear_kernel[(programs,)](
        x_desc, w_desc, out_desc, residual_desc, factor, cos, sin, M, N, K, T, rotated, cos.stride(0), sin.stride(0),
        P=P, EPILOGUE=epilogue, PROGRAMS=programs, **config,
    )  # fmt: skip


# %% [markdown]
# ## 2 The epilogues
#
# The cell above has the kernels of earlier units; you may replace them by your own in new cells. You write the
# epilogues of `linear_kernel`, and `block`, which launches all kernels.
#
# After the loop along K, `acc` holds a tile of the product: `BLOCK_M` rows, the first of which is `row`, and `BLOCK_N`
# columns, the first of which is `column`. `EPILOGUE` is a [constexpr](../glossary.md#constexpr), so the compiler keeps
# only the code of one epilogue:
#
# - `ROPE`: multiply each row by its factor. Then rotate the pairs in all columns before column `rotated`: these are the
#   queries and keys. Row r has position r % T in its sequence of T tokens, and pair i of a head uses column i of `cos`
#   and `sin`. Write the rotation as the function `rotate_pairs`.
# - `SWIGLU`: multiply each row by its factor, then store silu(gate) · up, which has `BLOCK_N // 2` columns.
# - `RESIDUAL`: add the residual.
#
# On Hopper, the operands of three pipeline stages take 144 of the 227 KB of shared memory that a thread block can use.
# A tile that a descriptor loads or stores needs shared memory, too. To save shared memory, `out_desc` and
# `residual_desc` have tiles of `BLOCK_N // 2` columns: with `ROPE` or `RESIDUAL`, store the tile in two halves. Use
# `halves_of`, `pairs_of` and `from_pairs` of the cell above. These functions do not move data between threads, because
# the columns that they separate or join are in registers of the same thread.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_desc`, `w_desc` | (M, K), (N, K) | operands |
# | `out_desc` | (M, N), or (M, N / 2) with `SWIGLU` | output; tiles of `BLOCK_M` × `BLOCK_N // 2` |
# | `residual_desc` | (M, N) | with `RESIDUAL`: the residual to add; tiles as large as those of `out_desc` |
# | `factor_ptr` | (M,) | with `ROPE` and `SWIGLU`: factors, fp32 |
# | `cos_ptr`, `sin_ptr` | (T, P) | with `ROPE`: fp32, P = D / 2; rows are `stride_ct` and `stride_st` elements apart |
#
# `block` gets all inputs, and `out` for the result. Intermediate results have the type of x. Allocate memory only for
# results that the plan stores, because the check counts the memory that you allocate.
#
# <details><summary>Hint 1</summary><code>pairs</code> holds the numbers of the tile's pairs, so <code>pairs % P</code>
# is the index of each pair in its head.</details>
# <details><summary>Hint 2</summary>Columns from <code>rotated</code> on must not change. Load 1 as their cosine and 0
# as their sine, with a mask and <code>other</code>.</details>
# <details><summary>Hint 3</summary>Load the residual like an operand: <code>residual_desc.load([row, column])</code>.
# Add it in fp32.</details>


# %% cell="solution" id="linear_kernel"
@triton.jit
def rotate_pairs(
    tile, rows, first, cos_ptr, sin_ptr, T, rotated, stride_ct, stride_st, P: tl.constexpr
):  # fmt: skip
    """Return the tile with rotated pairs in all columns before `rotated`. The tile starts at column `first`.

    rows  (tile.shape[0],) numbers of its rows
    """
    pairs = first // 2 + tl.arange(0, tile.shape[1] // 2)
    ### BEGIN SOLUTION
    a, b = pairs_of(tile)
    position, pair, mask = (rows % T)[:, None], (pairs % P)[None, :], pairs[None, :] < rotated // 2
    cos = tl.load(cos_ptr + position * stride_ct + pair, mask=mask, other=1.0)
    sin = tl.load(sin_ptr + position * stride_st + pair, mask=mask, other=0.0)
    return from_pairs(a * cos - b * sin, b * cos + a * sin)
    ### END SOLUTION


@triton.jit
def linear_kernel(
    x_desc, w_desc, out_desc, residual_desc, factor_ptr, cos_ptr, sin_ptr, M, N, K, T, rotated, stride_ct, stride_st,
    P: tl.constexpr, EPILOGUE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, PROGRAMS: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    """out = epilogue(x @ w.T). One program computes every PROGRAMS-th tile."""
    tiles_m, tiles_n, steps = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), tl.cdiv(K, BLOCK_K)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=FLATTEN):
        m, n = tile_of(tile, tiles_m, tiles_n, GROUP_M)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(steps):
            a, b = x_desc.load([m * BLOCK_M, k * BLOCK_K]), w_desc.load([n * BLOCK_N, k * BLOCK_K])
            acc = tl.dot(a, b.T, acc)
        rows, row, column = m * BLOCK_M + tl.arange(0, BLOCK_M), m * BLOCK_M, n * BLOCK_N
        ### BEGIN SOLUTION
        if EPILOGUE == RESIDUAL:
            left, right = halves_of(acc)
            left += residual_desc.load([row, column]).to(tl.float32)
            right += residual_desc.load([row, column + BLOCK_N // 2]).to(tl.float32)
        else:
            acc *= tl.load(factor_ptr + rows, mask=rows < M, other=0.0)[:, None]
        if EPILOGUE == ROPE:
            left, right = halves_of(acc)
            left = rotate_pairs(left, rows, column, cos_ptr, sin_ptr, T, rotated, stride_ct, stride_st, P)
            right = rotate_pairs(
                right, rows, column + BLOCK_N // 2, cos_ptr, sin_ptr, T, rotated, stride_ct, stride_st, P
            )
        if EPILOGUE == SWIGLU:
            gate, up = pairs_of(acc)
            out_desc.store([row, column // 2], (gate * tl.sigmoid(gate) * up).to(out_desc.dtype))
        else:
            out_desc.store([row, column], left.to(out_desc.dtype))
            out_desc.store([row, column + BLOCK_N // 2], right.to(out_desc.dtype))
        ### END SOLUTION


def block(x, qkv, cos, sin, proj, gate_up, down, out):
    """Compute the block's result `out` (S, C) from x (S, C): S / T sequences of T tokens.

    weights    qkv ((H + 2 HK) D, C), proj (C, H D), gate_up (2 F, C), down (C, F)
    RoPE       cos, sin (T, D / 2)
    """
    (S, C), (T, P), HD = x.shape, cos.shape, proj.shape[1]
    D = 2 * P
    H, HK = HD // D, (len(qkv) - HD) // (2 * D)
    x, qkv, proj, gate_up, down = (lab.aligned(t) for t in (x, qkv, proj, gate_up, down))
    result = lab.aligned(out, keep=False)
    ### BEGIN SOLUTION
    z, mixed, y, hidden = (x.new_empty(S, columns) for columns in (len(qkv), HD, C, down.shape[1]))
    linear(x, qkv, z, ROPE.value, factor=factors(x), cos=cos, sin=sin, rotated=(H + HK) * D)
    attention(z, mixed, T, H, HK, D)
    linear(mixed, proj, y, RESIDUAL.value, residual=x)
    linear(y, gate_up, hidden, SWIGLU.value, factor=factors(y))
    linear(hidden, down, result, RESIDUAL.value, residual=y)
    ### END SOLUTION
    if result is not out:
        out.copy_(result)


# %% cell="check" exercise="24_capstone/block"
lab.check("24_capstone/block")

# %% [markdown]
# | what the check prints | common cause |
# |---|---|
# | "norm is missing" | `ROPE` or `SWIGLU` does not multiply by the factors |
# | "pairs are i and i + D/2", "halves of the columns" | the code pairs halves, not columns 2i and 2i + 1 |
# | `out-of-bounds` in `cos` | `row` is used instead of `row % T`, or the index of a pair is not taken modulo P |
# | "x is added at the end" | the last `linear_kernel` adds x instead of y |
# | more sectors stored than allowed | a kernel stores a result that the plan keeps on the chip |
#
# ## 3 The race and a work log
#
# The next cell times your block, eager PyTorch, and PyTorch with `torch.compile(mode="max-autotune-no-cudagraphs")`,
# which also tries Triton kernels for each matmul. All three compute the same block with the same weights. Your block
# should be at least 1.05 times as fast as `torch.compile`.

# %%
print(lab.benchmark("24_capstone/block", block) or "")
capstone.race(block)

# %% [markdown]
# Now make your block or another kernel of unit 24 faster, on any GPU that you have, and keep a log. Without a GPU,
# reduce the bytes moved (`lab.benchmark` prints them) instead of the time.
#
# Each entry of the log is one change. Write the prediction *before* you measure. `work_log` returns a list of dicts:
#
# | key | meaning |
# |---|---|
# | `change` | what you changed, precisely enough for somebody else to repeat it |
# | `before` | the time or count of the version that you changed |
# | `predicted` | the time or count that you expected after the change |
# | `measured` | the time or count after the change |
# | `kept` | True if you keep the change |
#
# In each entry after the first, `before` must equal `measured` of the last change that you kept, or the first `before`
# if you have kept none yet. The check requires at least four entries, and at least two of them must be changes that did
# not help. Such a change is useful, too: it shows that something else is the bottleneck. Ideas: tile sizes and stages
# of each `linear`, another order of tiles, RoPE in its own kernel, factors computed by the kernel that stores y, two
# heads per program of attention.


# %% cell="solution" id="work_log"
def work_log():
    """Return entries, oldest first: dicts with change, before, predicted, measured and kept."""
    ### BEGIN SOLUTION
    # An earlier rms_norm_backward of 24_block_kernels, with two sums: 16384 × 5120 in fp16, µs on an H200.
    # A copy of the same bytes takes 124 µs. Each prediction: the change removes half of what is above that.
    return [
        dict(
            change="compute both sums of a row in one reduction of pairs",
            before=155.4, predicted=140, measured=154.7, kept=True,
        ),
        dict(
            change="load the next row into registers before reducing this one",
            before=154.7, predicted=139, measured=155.8, kept=False,
        ),
        dict(
            change="reduce two rows at once, 16 warps, one stage, 396 programs",
            before=154.7, predicted=139, measured=173.9, kept=False,
        ),
        dict(
            change="split each row into 4096 + 1024 columns instead of 8192, 8 warps, 264 programs",
            before=154.7, predicted=139, measured=133.5, kept=True,
        ),
    ]  # fmt: skip
    ### END SOLUTION


# %% cell="check" exercise="24_capstone/work_log"
lab.check("24_capstone/work_log")

# %%
lab.claims("24_capstone")  # a two-minute quiz: predict each number, then compare
capstone.show(work_log())

# %% [markdown] cell="manual" id="explain" points=3
# **Explain.** Compare your predictions of section 1 with the measured times, or with counts of bytes. Then use your
# log: which prediction had the largest error, and what does this say about the bottleneck? If you had to give up a
# fusion of the plan, which one would it be, and why?
#
# ### BEGIN SOLUTION
# The matmuls have 2 · 16 384 · 218 million = 7.15 · 10¹² FLOPs, attention with a causal mask 0.27 · 10¹²: 10.6 ms at
# 700 TFLOP/s. Without its fusion, SwiGLU reads 2 · 14 336 columns and writes 14 336, and the matmul writes 2 · 14 336
# columns instead of 14 336. That is 4 · 14 336 columns more: 1.88 GB, 0.47 ms. A residual in a kernel of its own writes
# the product and reads it again: 0.27 GB, 0.07 ms each. RoPE reads and writes 5120 columns: 0.34 GB, 0.08 ms. Together,
# this is about 0.7 ms of 11.3 ms: a speedup of at most 6 %. In the log above, the prediction of the third change had
# the largest error, 20 %. It assumed that the barriers of the reductions take time. But two rows need more registers
# than a thread has, so values spill. The second change shows that the kernel does not wait for loads either. The
# bottleneck was the work of masked lanes, 3 of 8. The fusion to give up is that of RoPE or of a residual: these save
# least, and RoPE's epilogue needs the most registers.
# ### END SOLUTION

# %% [markdown]
# **Next.** Write the backward pass of the block: `18_flash_backward` and `24_block_kernels` have all its kernels except
# the matmuls. Or quantize the weights as in `22_low_precision`. `24_training` trains a small model with your kernels.
#
# **In practice**, inference engines such as vLLM and TensorRT-LLM also change the weights when they load a model: they
# join the weights of q, k and v into one matrix, and those of gate and up into another. Some kernels also need
# reordered rows.
#
# **Reading.** [The Llama 3 Herd of Models](https://arxiv.org/abs/2407.21783).
# [FlashAttention-2](https://arxiv.org/abs/2307.08691).

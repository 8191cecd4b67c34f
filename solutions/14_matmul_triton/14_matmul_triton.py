# %% [markdown]
# # Multiply matrices in Triton, tile by tile
#
# **You will** write four matrix products: with a ReLU, for any sizes and strides; with bias, activation and an order of
# tiles that spares the memory; with tensor descriptors in programs that stay; and split along K for few tiles.
#
# **You will learn to**
# - predict what tiles must load, and how full they keep the GPU;
# - carry an fp32 accumulator through a loop of `tl.dot`, and say which precision you mean;
# - count what an order of tiles reads from memory, and choose a better one;
# - let the hardware copy whole tiles, and overlap copies, products and stores.
#
# **You need** `06_elementwise_triton`, and the roofline of unit 05.
#
# About 120 minutes. Works without a GPU; only times need one.

# %% cell="setup"

# %% [markdown]
# ## Predict: what do the tiles load?
#
# $C = A B$ with A of M × K and B of K × N costs 2·M·N·K FLOPs. If every matrix moved once, a product of M = N = K in
# fp16 would have M/3 FLOPs for each byte. But programs do not share registers. One program computes a tile of
# `block_m` × `block_n` of C, and for that it loads a strip of A, `block_m` × K, and a strip of B, K × `block_n`.
#
# How many bytes do all programs load together? Tiles at the edge load only what exists.


# %% cell="solution" id="loaded_bytes"
def loaded_bytes(M, N, K, block_m, block_n, itemsize):
    """Bytes of A and B that all programs load together."""
    ### BEGIN SOLUTION
    tiles_m, tiles_n = -(-M // block_m), -(-N // block_n)
    return itemsize * K * (M * tiles_n + N * tiles_m)
    ### END SOLUTION


# %% cell="check" exercise="14_matmul_triton/loaded_bytes"
lab.check("14_matmul_triton/loaded_bytes")

# %% cell="given"
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from labutils import tiles

# Programs take the tiles row by row: which strips of A and B do they read, and which of those does the L2 still hold?
tiles.stepper(tiles.by_rows(6, 6), k_tiles=4, running=6, l2_tiles=28)

# %% [markdown]
# Large tiles load less: each element of A serves `block_n` columns. What the L2 holds comes from there (2), the rest
# from memory (M). Level 2 is about that difference.
#
# ## Level 1: matmul and ReLU, any sizes, any strides
#
# `c = max(a @ b, 0)`. One program computes one tile of C; tiles are numbered row by row.
#
# | argument | shape | meaning |
# |---|---|---|
# | `a_ptr`, `b_ptr` | (M, K), (K, N) | inputs; fp16, or fp32 in the test of precision |
# | `c_ptr` | (M, N) | output, the type of the inputs |
# | `stride_am`, `stride_ak`, … | numbers | elements to the next row, and to the next column; either may be 1 |
# | `BLOCK_M`, `BLOCK_N`, `BLOCK_K` | constants | the tile of C, and the step along K |
#
# **Precision.** Products of fp16 are exact in fp32, and sums are kept in fp32: `acc` is fp32 whatever the inputs are.
# For fp32 inputs `tl.dot` would round them to TF32 (10 bits of mantissa) unless you write `input_precision="ieee"`;
# older code says `allow_tf32=False`. The contract here is fp32, so say "ieee". It changes nothing for fp16.
#
# <details><summary>Hint 1</summary>A tile of pointers is a column of row offsets plus a row of column offsets:
# <code>a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak</code>.</details>
# <details><summary>Hint 2</summary>In step k the elements of K are <code>k + offs_k</code>. Those at or past K must
# bring 0 on both sides: <code>mask=…, other=0.0</code>.</details>
# <details><summary>Hint 3</summary><code>acc = tl.dot(a, b, acc, input_precision="ieee")</code> adds to acc. After the
# loop: <code>tl.maximum(acc, 0.0)</code>, and one masked store, which converts by itself.</details>


# %% cell="solution" id="matmul_relu_kernel"
@triton.jit
def matmul_relu_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Multiply two matrices and cut off what is negative.

    c[m, n] = max(sum over k of a[m, k] * b[k, n], 0)

    a_ptr  (M, K)  input      b_ptr  (K, N)  input      c_ptr  (M, N)  output
    One program computes BLOCK_M x BLOCK_N elements of c; tiles are numbered row by row.
    """
    pid = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    offs_m = pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    ### BEGIN SOLUTION
    mask_m, mask_n = offs_m[:, None] < M, offs_n[None, :] < N
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        # lanes past K add a product to every sum, so both sides must be 0 there
        a = tl.load(a_ptrs, mask=mask_m & (k + offs_k[None, :] < K), other=0.0)
        b = tl.load(b_ptrs, mask=(k + offs_k[:, None] < K) & mask_n, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn
    tl.store(c_ptrs, tl.maximum(acc, 0.0), mask=mask_m & mask_n)
    ### END SOLUTION


# %% cell="given" id="matmul_relu"
def tile_config(M, N, dtype):
    """Large tiles for large fp16 matrices; small ones where large ones would be few, or need fp32 arithmetic."""
    gpu = lab.device.current()
    if dtype != torch.float16 or M * N < 2**19:
        return dict(BLOCK_M=32, BLOCK_N=32, BLOCK_K=32, num_warps=4)
    if gpu and gpu.capability < (8, 0):  # no asynchronous copies, and 64 KB of shared memory
        return dict(BLOCK_M=128, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=2)
    if gpu and gpu.capability[0] == 9:
        return dict(BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_warps=8, num_stages=3)
    return dict(BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, num_warps=4, num_stages=4)


def matmul_relu(a, b, c):
    M, K = a.shape
    N = b.shape[1]
    config = tile_config(M, N, a.dtype)
    grid = (triton.cdiv(M, config["BLOCK_M"]) * triton.cdiv(N, config["BLOCK_N"]),)
    matmul_relu_kernel[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), **config)


lab.tiny("14_matmul_triton/matmul_relu")

# %% cell="check" exercise="14_matmul_triton/matmul_relu"
lab.check("14_matmul_triton/matmul_relu")

# %% [markdown]
# When a check of this unit fails:
#
# | what it says | a common cause |
# |---|---|
# | `missing-accumulation` | `acc = tl.dot(a, b)` starts anew in each step, or the pointers do not move along K |
# | `out-of-bounds`, `tail-unmasked` | a load without its mask along K, M or N, or a store without one |
# | `transposed`, `wrong-stride` | a stride with the wrong offset; a stride taken to be N, K or 1 |
# | `precision` | sums in fp16, or fp32 operands rounded to TF32 |
# | `wrong-formula` | an epilogue inside the loop, in another order, or left out |
#
# ## Level 2: an order that spares memory, and an epilogue
#
# A linear layer: `out = act(a @ b + bias)`, for a batch of matrices. While the accumulator is in registers, bias and
# activation cost next to nothing: no launch, no pass over C.
#
# And the order. Sixteen programs that run side by side take 1 × 16 tiles if tiles are numbered by rows: 17 strips.
# A square of 4 × 4 needs 8. So number them in *groups* of `GROUP_M` rows of tiles: within a group, down the column
# first, then on to the next column. The last group may have fewer rows. A bound counts what each wave of 16 programs
# reads.
#
# <details><summary>Hint 1</summary>A group holds <code>GROUP_M * tiles_n</code> programs. Which group is mine, at
# which row does it begin, how many rows has it?</details>
# <details><summary>Hint 2</summary>The last group has <code>tl.minimum(tiles_m - first_m, GROUP_M)</code> rows. Within
# the group, divide by the number of its rows: the remainder is the row.</details>
# <details><summary>Hint 3</summary>Bias belongs to columns: load it with <code>offs_n</code>, in fp32, and add
# <code>bias[None, :]</code> to acc before the activation.</details>


# %% cell="given" id="activate"
@triton.jit
def activate(x, slope, ACTIVATION: tl.constexpr):
    """relu, leaky_relu, gelu (the tanh form) or nothing."""
    if ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    elif ACTIVATION == "leaky_relu":
        x = tl.where(x > 0, x, slope * x)
    elif ACTIVATION == "gelu":
        x = x / (1 + tl.exp(-1.5957691216 * (x + 0.044715 * x * x * x)))
    return x


# %% cell="solution" id="linear_kernel"
@triton.jit
def grouped_tile(pid, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """(row, column) of the pid-th tile: groups of GROUP_M rows of tiles, in each group column by column."""
    ### BEGIN SOLUTION
    per_group = GROUP_M * tiles_n
    first_m = pid // per_group * GROUP_M
    rows = tl.minimum(tiles_m - first_m, GROUP_M)
    within = pid % per_group
    return first_m + within % rows, within // rows
    ### END SOLUTION


def few_for_small(configs, arguments, **_):
    """Small matrices need no tuning: the first configuration is theirs."""
    return configs[:1] if arguments["M"] * arguments["N"] < 2**19 else configs[1:]


CONFIGS = [
    triton.Config(dict(BLOCK_M=16, BLOCK_N=16, BLOCK_K=32, GROUP_M=4), num_warps=2, num_stages=3),
    triton.Config(dict(BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, GROUP_M=8), num_warps=8, num_stages=3),
    triton.Config(dict(BLOCK_M=256, BLOCK_N=128, BLOCK_K=64, GROUP_M=4), num_warps=8, num_stages=3),
    triton.Config(dict(BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, GROUP_M=8), num_warps=4, num_stages=4),
    triton.Config(dict(BLOCK_M=128, BLOCK_N=64, BLOCK_K=32, GROUP_M=8), num_warps=4, num_stages=2),
]


@triton.autotune(CONFIGS, key=["M", "N", "K"], prune_configs_by={"early_config_prune": few_for_small})
@triton.heuristics({"EVEN_K": lambda arguments: arguments["K"] % arguments["BLOCK_K"] == 0})
@triton.jit
def linear_kernel(
    a_ptr, b_ptr, bias_ptr, out_ptr, slope, M, N, K,
    stride_ab, stride_am, stride_ak, stride_bb, stride_bk, stride_bn, stride_ob, stride_om, stride_on,
    ACTIVATION: tl.constexpr, EVEN_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """A linear layer: product, bias, activation.

    out[i] = activate(a[i] @ b[i] + bias)

    a_ptr     (B, M, K)  input      b_ptr    (B, K, N)  input
    bias_ptr  (N,)       input      out_ptr  (B, M, N)  output
    One program computes BLOCK_M x BLOCK_N elements of one product; axis 1 of the grid counts the batch.
    """
    pid_m, pid_n = grouped_tile(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    batch = tl.program_id(1).to(tl.int64)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    # Rows and columns past the end read others again, and their sums are never stored: so the loop needs no mask
    # for them, and none at all where EVEN_K says that K fills its blocks.
    a_ptrs = a_ptr + batch * stride_ab + (offs_m % M)[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + batch * stride_bb + offs_k[:, None] * stride_bk + (offs_n % N)[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        if EVEN_K:
            a, b = tl.load(a_ptrs), tl.load(b_ptrs)
        else:
            a = tl.load(a_ptrs, mask=k + offs_k[None, :] < K, other=0.0)
            b = tl.load(b_ptrs, mask=k + offs_k[:, None] < K, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    out_ptrs = out_ptr + batch * stride_ob + offs_m[:, None] * stride_om + offs_n[None, :] * stride_on
    ### BEGIN SOLUTION
    bias = tl.load(bias_ptr + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
    out = activate(acc + bias[None, :], slope, ACTIVATION)
    tl.store(out_ptrs, out, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
    ### END SOLUTION


# %% cell="given" id="linear"
def linear(a, b, bias, slope, out, activation="leaky_relu"):
    B, M, K = a.shape
    N = b.shape[2]
    linear_kernel[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]), B)](
        a, b, bias, out, slope, M, N, K, *a.stride(), *b.stride(), *out.stride(), ACTIVATION=activation
    )


lab.tiny("14_matmul_triton/linear")

# %% cell="check" exercise="14_matmul_triton/linear"
lab.check("14_matmul_triton/linear")

# %%
# Your order, from the stores of your kernel; in the same model.
tiles.stepper(tiles.recorded(linear, 96, 96, (16, 16)), k_tiles=4, running=6, l2_tiles=28)

# %%
for name in ("matmul_relu", "linear"):
    print(lab.benchmark(f"14_matmul_triton/{name}") or "")

# %% [markdown]
# On a GPU `autotune` has timed `CONFIGS` for each new M, N, K. Try more: a smaller tile, other stages, `GROUP_M=1`.
#
# **T4 and older.** A tile here becomes tensor-core instructions where there are some for its types. Triton has none for
# Turing (sm_75) any more: the next cell compiles your kernel and looks.

# %%
x = torch.empty(64, 64, dtype=torch.float16)
for capability in (75, 80, 90):
    options = dict(BLOCK_M=64, BLOCK_N=64, BLOCK_K=32)
    arguments = (x, x, x, 64, 64, 64, *x.stride(), *x.stride(), *x.stride())
    print(f"sm_{capability}:", tiles.machine_code(matmul_relu_kernel, arguments, options, capability))

# %% [markdown]
# ## Predict: how much of the GPU is busy?
#
# On 132 SMs, one tile of 128 × 256 at a time on each: a product of 2048 × 2048 has 128 tiles, one wave, four SMs idle.
# 2304 × 2304 has 162 tiles: two waves, the second mostly empty. And tiles at the edge compute elements that nobody
# stores. What share of the work that all SMs could do in these waves goes into elements of C?


# %% cell="solution" id="busy_share"
def busy_share(M, N, block_m, block_n, sms):
    """Elements of C over elements that `sms` SMs compute in all waves, one tile each at a time."""
    ### BEGIN SOLUTION
    count = -(-M // block_m) * -(-N // block_n)
    waves = -(-count // sms)
    return M * N / (waves * sms * block_m * block_n)
    ### END SOLUTION


# %% cell="check" exercise="14_matmul_triton/busy_share"
lab.check("14_matmul_triton/busy_share")

# %% [markdown]
# ## Level 3: descriptors, and programs that stay
#
# From Hopper on a copy engine, the *TMA*, moves a whole tile with one instruction: no pointers, no masks, no registers.
# What it needs to know is in a **tensor descriptor**: address, shape, strides, tile. `desc.load([m, k])` gives the tile
# whose corner is at (m, k), with 0 for what lies outside; `desc.store([m, n], tile)` writes only what lies inside. Rows
# must begin at multiples of 16 bytes, and the last stride must be 1: `lab.aligned` copies a matrix if that is not so.
# (Block pointers, `tl.make_block_ptr`, came before descriptors, and are deprecated.)
#
# And the programs stay: as many as the GPU has SMs, each takes every `NUM_PROGRAMS`-th tile. So the loads of the next
# tile can start while this one is stored. `tl.range(…, flatten=True)` makes one loop of the two for that, and
# `warp_specialize=True` gives the loads to a warp of their own: write the loops, the options are passed in.
#
# B is stored as K × N or, as weights of a layer often are, as N × K. Tensor cores take both: in the second case load
# `[n, k]` and turn the tile round with `.T`.
#
# <details><summary>Hint 1</summary>Two loops: tiles, from <code>tl.program_id(0)</code> on in steps of
# <code>NUM_PROGRAMS</code>; in it a fresh accumulator, and steps along K.</details>
# <details><summary>Hint 2</summary>Descriptors count in elements: the corner of tile (pid_m, pid_n) of C is at
# <code>[pid_m * BLOCK_M, pid_n * BLOCK_N]</code>.</details>
# <details><summary>Hint 3</summary><code>store_tile</code> is given: it takes the corner, acc, and two of your
# constants.</details>


# %% cell="given" id="store_tile"
@triton.jit
def store_tile(c_desc, m, n, acc, BLOCK_N: tl.constexpr, HALVES: tl.constexpr):
    """Store the tile at (m, n); with HALVES its halves one after the other, which need half the shared memory."""
    if HALVES:
        rows: tl.constexpr = acc.shape[0]
        left, right = tl.split(tl.permute(tl.reshape(acc, (rows, 2, BLOCK_N // 2)), (0, 2, 1)))
        c_desc.store([m, n], left.to(c_desc.dtype))
        c_desc.store([m, n + BLOCK_N // 2], right.to(c_desc.dtype))
    else:
        c_desc.store([m, n], acc.to(c_desc.dtype))


# %% cell="solution" id="multiply_tiles"
@triton.jit
def multiply_tiles(
    a_desc, b_desc, c_desc, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, B_IS_NK: tl.constexpr, RELU: tl.constexpr, NUM_PROGRAMS: tl.constexpr,
    FLATTEN: tl.constexpr, SPECIALISE: tl.constexpr, HALVES: tl.constexpr,
):  # fmt: skip
    """The tiles of one program: c = a @ b, or max(a @ b, 0) with RELU.

    a_desc  (M, K), tiles BLOCK_M x BLOCK_K      c_desc  (M, N), tiles BLOCK_M x BLOCK_N
    b_desc  (K, N), tiles BLOCK_K x BLOCK_N; with B_IS_NK (N, K), tiles BLOCK_N x BLOCK_K
    One program computes every NUM_PROGRAMS-th tile, in the order of grouped_tile.
    """
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    k_tiles = tl.cdiv(K, BLOCK_K)
    ### BEGIN SOLUTION
    for tile in tl.range(
        tl.program_id(0), tiles_m * tiles_n, NUM_PROGRAMS, flatten=FLATTEN, warp_specialize=SPECIALISE
    ):
        pid_m, pid_n = grouped_tile(tile, tiles_m, tiles_n, GROUP_M)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(k_tiles):
            a = a_desc.load([pid_m * BLOCK_M, k * BLOCK_K])
            if B_IS_NK:
                b = b_desc.load([pid_n * BLOCK_N, k * BLOCK_K]).T
            else:
                b = b_desc.load([k * BLOCK_K, pid_n * BLOCK_N])
            acc = tl.dot(a, b, acc)
        if RELU:
            acc = tl.maximum(acc, 0.0)
        store_tile(c_desc, pid_m * BLOCK_M, pid_n * BLOCK_N, acc, BLOCK_N, HALVES)
    ### END SOLUTION


# %% cell="given" id="persistent"
@triton.jit
def host_kernel(
    a_desc, b_desc, c_desc, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, B_IS_NK: tl.constexpr, RELU: tl.constexpr, NUM_PROGRAMS: tl.constexpr,
    FLATTEN: tl.constexpr, SPECIALISE: tl.constexpr, HALVES: tl.constexpr,
):  # fmt: skip
    """Descriptors come from the host, as arguments."""
    multiply_tiles(a_desc, b_desc, c_desc, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, B_IS_NK, RELU, NUM_PROGRAMS,
                   FLATTEN, SPECIALISE, HALVES)  # fmt: skip


@triton.jit
def device_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_a, stride_b, stride_c,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, B_IS_NK: tl.constexpr, RELU: tl.constexpr, NUM_PROGRAMS: tl.constexpr,
    FLATTEN: tl.constexpr, SPECIALISE: tl.constexpr, HALVES: tl.constexpr,
):  # fmt: skip
    """Each program makes its descriptors: on Hopper warp_specialize wants these."""
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [stride_a, 1], [BLOCK_M, BLOCK_K])
    if B_IS_NK:
        b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [stride_b, 1], [BLOCK_N, BLOCK_K])
    else:
        b_desc = tl.make_tensor_descriptor(b_ptr, [K, N], [stride_b, 1], [BLOCK_K, BLOCK_N])
    columns: tl.constexpr = BLOCK_N // 2 if HALVES else BLOCK_N
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [stride_c, 1], [BLOCK_M, columns])
    multiply_tiles(a_desc, b_desc, c_desc, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, B_IS_NK, RELU, NUM_PROGRAMS,
                   FLATTEN, SPECIALISE, HALVES)  # fmt: skip


def scratch(size, alignment, stream):
    return torch.empty(size, dtype=torch.int8, device="cuda")


def persistent_config(M, N):
    gpu = lab.device.current()
    if M * N < 2**16:
        return dict(BLOCK_M=32, BLOCK_N=32, BLOCK_K=32, GROUP_M=4, num_warps=4, num_stages=2)
    if gpu and gpu.capability[0] == 9:
        large = dict(BLOCK_K=64, GROUP_M=8, FLATTEN=True)
        waves = [triton.cdiv(triton.cdiv(M, 128) * triton.cdiv(N, n), gpu.sms) for n in (128, 256)]
        if waves[0] > 1.55 * waves[1]:  # a wave of wide tiles takes 1.45 to 1.75 times as long
            return dict(BLOCK_M=128, BLOCK_N=256, num_warps=8, num_stages=3) | large
        return dict(BLOCK_M=128, BLOCK_N=128, num_warps=4, num_stages=4) | large
    return dict(BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, GROUP_M=8, num_warps=4, num_stages=3)


def persistent(a, b, c, relu=True, config=None):
    M, K = a.shape
    N = b.shape[1]
    config = dict(FLATTEN=False, SPECIALISE=False, HALVES=False) | (config or persistent_config(M, N))
    on_device = config.pop("on_device", False)
    BLOCK_M, BLOCK_N, BLOCK_K = config["BLOCK_M"], config["BLOCK_N"], config["BLOCK_K"]
    by_columns = b.stride(0) == 1 and b.stride(1) > 1
    a, b, out = lab.aligned(a), lab.aligned(b.T if by_columns else b), lab.aligned(c, keep=False)
    gpu = lab.device.current()
    sms = gpu.sms if gpu else 4
    programs = min(sms, triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N))
    flags = dict(B_IS_NK=by_columns, RELU=relu, NUM_PROGRAMS=sms)
    if on_device:
        triton.set_allocator(scratch)
        rows = (a.stride(0), b.stride(0), out.stride(0))
        device_kernel[(programs,)](a, b, out, M, N, K, *rows, **flags, **config)
    else:
        a_desc = TensorDescriptor.from_tensor(a, [BLOCK_M, BLOCK_K])
        b_desc = TensorDescriptor.from_tensor(b, [BLOCK_N, BLOCK_K] if by_columns else [BLOCK_K, BLOCK_N])
        c_desc = TensorDescriptor.from_tensor(out, [BLOCK_M, BLOCK_N // 2 if config["HALVES"] else BLOCK_N])
        host_kernel[(programs,)](a_desc, b_desc, c_desc, M, N, K, **flags, **config)
    if out is not c:
        c.copy_(out)


lab.tiny("14_matmul_triton/persistent")

# %% cell="check" exercise="14_matmul_triton/persistent"
lab.check("14_matmul_triton/persistent")

# %% [markdown]
# ## Level 4, extra: few tiles, long sums
#
# 16 × 4096 times 4096 × 4096, a step of a language model: 32 tiles of 128 columns for 132 SMs. So split the sums too:
# `parts` programs share a tile, each sums every `parts`-th block of K, and adds its part to fp32 `sums` with atomics.
# The one that comes last (a counter tells) applies the ReLU and stores. `sums` and the counters begin as 0.
#
# <details><summary>Hint 1</summary>Part p takes the blocks that begin at <code>p * BLOCK_K</code>, and goes on in steps
# of <code>parts * BLOCK_K</code>.</details>
# <details><summary>Hint 2</summary><code>tl.atomic_add(pointers, values, mask=…, sem="relaxed")</code> for the sums:
# nobody reads them yet, so they need no order. Then <code>tl.atomic_add(arrived_ptr + pid, 1)</code>, which orders what
# came before it, and returns what was there.</details>
# <details><summary>Hint 3</summary>Between the two: <code>tl.debug_barrier()</code>, so that every thread's sums are
# out before the program is counted. The last one finds <code>parts - 1</code>.</details>


# %% cell="solution" id="split_k_kernel"
@triton.jit
def split_k_kernel(
    a_desc, b_desc, c_ptr, sums_ptr, arrived_ptr, M, N, K, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, B_IS_NK: tl.constexpr,
):  # fmt: skip
    """c = max(a @ b, 0), with several programs for each tile.

    a_desc  (M, K), tiles BLOCK_M x BLOCK_K      c_ptr  (M, N)  output
    b_desc  (K, N), tiles BLOCK_K x BLOCK_N; with B_IS_NK (N, K), tiles BLOCK_N x BLOCK_K
    sums_ptr  (M, N)  fp32 zeros      arrived_ptr  (tiles,)  int32 zeros
    One program adds up one of `parts` parts of the sums of a tile; the last one of a tile stores it.
    """
    pid, part, parts = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    tiles_n = tl.cdiv(N, BLOCK_N)
    m, n = pid // tiles_n * BLOCK_M, pid % tiles_n * BLOCK_N
    offs_m, offs_n = m + tl.arange(0, BLOCK_M), n + tl.arange(0, BLOCK_N)
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    sums_ptrs = sums_ptr + offs_m[:, None] * N + offs_n[None, :]
    c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    ### BEGIN SOLUTION
    for k in range(part * BLOCK_K, K, parts * BLOCK_K):
        a = a_desc.load([m, k])
        b = b_desc.load([n, k]).T if B_IS_NK else b_desc.load([k, n])
        acc = tl.dot(a, b, acc)
    tl.atomic_add(sums_ptrs, acc, mask=mask, sem="relaxed")
    tl.debug_barrier()
    if tl.atomic_add(arrived_ptr + pid, 1) == parts - 1:
        acc = tl.load(sums_ptrs, mask=mask)
        tl.store(c_ptrs, tl.maximum(acc, 0.0), mask=mask)
    ### END SOLUTION


# %% cell="given" id="split_k"
def split_config(M, N, K):
    """Tile and options, and how many programs share one: as many as one wave holds."""
    gpu, tiles = lab.device.current(), lambda m, n: triton.cdiv(M, m) * triton.cdiv(N, n)
    if M * N * K < 2**20:
        small = dict(BLOCK_M=16, BLOCK_N=16, BLOCK_K=32, num_warps=4, num_stages=2)
        return small, max(1, min(triton.cdiv(8, tiles(16, 16)), triton.cdiv(K, 64)))
    roomy = gpu and gpu.limits.shared_per_block_kb > 160
    BLOCK_M = 64 if M <= 64 else 128
    config = dict(BLOCK_M=BLOCK_M, BLOCK_N=128, BLOCK_K=64, num_warps=BLOCK_M // 16, num_stages=4 if roomy else 3)
    return config, max(1, min((gpu.sms if gpu else 8) // tiles(BLOCK_M, 128), K // 256))


def split_k(a, b, c, config=None, parts=None):
    M, K = a.shape
    N = b.shape[1]
    choice, wanted = split_config(M, N, K)
    config, parts = config or choice, parts or wanted
    BLOCK_M, BLOCK_N, BLOCK_K = config["BLOCK_M"], config["BLOCK_N"], config["BLOCK_K"]
    by_columns = b.stride(0) == 1 and b.stride(1) > 1
    a, b = lab.aligned(a), lab.aligned(b.T if by_columns else b)
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    zeros = torch.zeros(M * N + tiles, dtype=torch.int32, device=a.device)
    sums, arrived = zeros[: M * N].view(torch.float32), zeros[M * N :]
    a_desc = TensorDescriptor.from_tensor(a, [BLOCK_M, BLOCK_K])
    b_desc = TensorDescriptor.from_tensor(b, [BLOCK_N, BLOCK_K] if by_columns else [BLOCK_K, BLOCK_N])
    split_k_kernel[(tiles, parts)](a_desc, b_desc, c, sums, arrived, M, N, K, *c.stride(), B_IS_NK=by_columns, **config)


lab.tiny("14_matmul_triton/split_k")

# %% cell="check" exercise="14_matmul_triton/split_k"
lab.check("14_matmul_triton/split_k")


# %% cell="given" id="matmul"
def matmul(a, b, c):
    """max(a @ b, 0), by the level that fits: split sums where a wave has room for several programs a tile."""
    *_, parts = split_config(a.shape[0], b.shape[1], a.shape[1])
    (split_k if parts > 1 else persistent)(a, b, c)


# %%
# Course material says that Triton reaches 90 to 95 % of the library. Yours, on your GPU:
for name in ("persistent", "split_k"):
    print(lab.benchmark(f"14_matmul_triton/{name}") or "")
tiles.claims(matmul_relu, persistent)

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Compare `loaded_bytes(8192, 8192, 8192, 128, 256, 2)` with the 402 MB of the three matrices. On an H200
# that product takes 1.5 ms, and the memory gives 4.2 GB in a millisecond. Where do the loads come from, and what would
# tiles numbered by rows change?
#
# ### BEGIN SOLUTION
# The programs load 12.9 GB, 8.6 TB/s: more than memory gives. Most of it must come from the L2. By rows, a wave of 132
# tiles covers 4 rows of 32 tiles: 4 strips of A and all of B, and every fourth row B is read from memory again. In
# groups of 8 rows a wave covers about 8 by 17 tiles: fewer strips, and those of A stay while it moves along.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** `15_matmul_cuda` builds the same tiles by hand. Try *stream-K*: as many programs as SMs, each with an
# equal share of all steps along K of all tiles, so that no wave is partly empty. With `HALVES` the store
# needs half the shared memory: give that to the loads as one more stage.
#
# **In practice** you call `torch.matmul`, and `torch.compile` writes such a kernel when an epilogue is worth it. You
# write your own for what the library has not: other epilogues, other types, weights that are unpacked on the way.
#
# **Reading.** [Triton's tutorial on matrix multiplication](https://triton-lang.org/main/getting-started/tutorials/03-matrix-multiplication.html)
# and [on persistent kernels](https://triton-lang.org/main/getting-started/tutorials/09-persistent-matmul.html).
# [Stream-K](https://arxiv.org/abs/2301.03598): work without waves.

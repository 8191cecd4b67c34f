# %% [markdown]
# # Multiply matrices in Triton, tile by tile
#
# **You will** write a [matmul](../glossary.md#matmul) kernel with ReLU, and a kernel for [linear
# layers](../glossary.md#linear-layer): matmul, bias and [activation](../glossary.md#activation-function).
#
# **You will learn to**
# - predict how many bytes the programs of a matmul load;
# - accumulate products of [fp16](../glossary.md#fp16) tiles in fp32, and choose the precision for fp32 inputs;
# - fuse an [epilogue](../glossary.md#epilogue) into the kernel;
# - order programs so that more loads hit the [L2 cache](../glossary.md#l2-cache).
#
# **You need** `06_elementwise_triton` and `05_roofline`.
#
# About 60 minutes. You need a GPU only to measure times.

# %% cell="setup"

# %% [markdown]
# ## Predict: how many bytes do the programs load?
#
# $C = A B$ with A of shape (M, K) and B of shape (K, N) takes 2·M·N·K FLOPs. For M = N = K in fp16, each matrix has
# 2·M² bytes. If each matrix were read or written only once, the [arithmetic
# intensity](../glossary.md#arithmetic-intensity) would be 2·M³ / (6·M²) = M/3 FLOPs per byte.
#
# But programs cannot share registers, so several programs load the same elements. One program computes a
# [tile](../glossary.md#tile) of `block_m` × `block_n` elements of C. For this tile, the program loads `block_m` whole
# rows of A and `block_n` whole columns of B. A program at the edge of C loads only rows and columns that exist.
#
# How many bytes do all programs load together?

# %% cell="solution" id="loaded_bytes"
def loaded_bytes(M, N, K, block_m, block_n, itemsize):
    """Return how many bytes of A and B all programs load together. One element has `itemsize` bytes."""
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

from labutils import tiles

# In this picture, six programs run at the same time, and the L2 has room for 28 tiles. Programs 0 to 5 compute the
# first row of tiles of C. Each step shows which tiles of A and B are loaded, and which of these loads hit the L2.
tiles.stepper(tiles.by_rows(6, 6), k_tiles=4, running=6, l2_tiles=28)

# %% [markdown]
# With larger tiles, programs load fewer bytes: a program uses each loaded element of A for `block_n` columns of C. In
# [level](../glossary.md#level) 2, you order the programs so that more loads hit the L2 cache.
#
# ## Level 1: matmul and ReLU, for any sizes and strides
#
# Compute `c = max(a @ b, 0)`. One program computes one tile of C; tiles are numbered row by row. The program loops over
# K: each iteration loads one tile of A and one tile of B. `tl.dot(a, b, acc)` multiplies these two tiles and adds the
# product to the [accumulator](../glossary.md#accumulator) `acc`.
#
# | argument | shape | meaning |
# |---|---|---|
# | `a_ptr` | (M, K) | input: fp16, or fp32 in one test |
# | `b_ptr` | (K, N) | input, of the same dtype |
# | `c_ptr` | (M, N) | output, of the same dtype |
# | `stride_am` | integer | the distance between neighboring rows of A, in elements; 1 if A is stored column by column |
# | `stride_ak` | integer | the distance between neighboring columns of A |
# | `stride_bk`, … | integers | the strides of B and C, named in the same way |
# | `BLOCK_M`, `BLOCK_N` | constants | the rows and columns of a tile of C |
# | `BLOCK_K` | constant | the columns of a tile of A, and the rows of a tile of B |
#
# **Precision.** Let `acc` be fp32 for all inputs: a product of two fp16 numbers is exact in fp32, but not in fp16. By
# default, `tl.dot` rounds fp32 inputs to [TF32](../glossary.md#tf32), which has {claim: tf32_mantissa_bits}
# [mantissa](../glossary.md#mantissa) bits. This exercise requires full fp32, so pass `input_precision="ieee"`. (Older
# code has `allow_tf32=False` instead.) `input_precision` has no effect on fp16 inputs.
#
# <details><summary>Hint 1</summary>To get a tile of pointers, add a column vector of row offsets and a row vector of
# column offsets: <code>a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak</code>.</details>
# <details><summary>Hint 2</summary>The loop goes over <code>k</code> = 0, BLOCK_K, 2 · BLOCK_K, … and loads the indices
# <code>k + offs_k</code>. Where an index is K or more, load 0 for both <code>a</code> and <code>b</code>: <code>mask=…,
# other=0.0</code>.</details>
# <details><summary>Hint 3</summary>In the loop, write <code>acc = tl.dot(a, b, acc, input_precision="ieee")</code>.
# After the loop, apply <code>tl.maximum(acc, 0.0)</code> and store with a mask. The store converts the dtype.</details>


# %% cell="solution" id="matmul_relu_kernel"
@triton.jit
def matmul_relu_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Multiply two matrices and apply ReLU.

    c[m, n] = max(sum over k of a[m, k] * b[k, n], 0)

    a_ptr  (M, K)  input
    b_ptr  (K, N)  input
    c_ptr  (M, N)  output
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
        # elements past K would be added to every accumulator, so a and b must both be 0 there
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
    """Choose large tiles for large fp16 matrices, and small tiles for small matrices and for fp32.

    num_warps: warps per program
    num_stages: buffers for tiles of A and B; the next tiles are loaded while the current ones are multiplied
    """
    gpu = lab.device.current()
    if dtype != torch.float16 or M * N < 2**19:
        return dict(BLOCK_M=16, BLOCK_N=64, BLOCK_K=32, num_warps=4)
    if gpu and gpu.capability < (8, 0):  # these GPUs have no asynchronous copies, and less shared memory
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
# Use this table when a check of this notebook fails:
#
# | the check reports | a common cause |
# |---|---|
# | `missing-accumulation` | `tl.dot` overwrites `acc`, or the pointers do not advance along K |
# | `tail-unmasked` | no mask along K, M or N; swapped strides; or the kernel assumes a stride of N or K |
# | `transposed` | the kernel assumes a stride of 1 |
# | `precision` | `acc` is fp16, or fp32 inputs are rounded to TF32 |
# | `wrong-formula` | the code for ReLU, bias or activation is inside the loop, in the wrong order, or missing |
#
# ## Level 2: grouped ordering, and a fused epilogue
#
# Compute a linear layer, `out = act(a @ b + bias)`, for a batch of matrices. The *[epilogue](../glossary.md#epilogue)*,
# the code after the loop, adds the bias and applies the activation `act` while the accumulator is still in registers.
# So no second kernel has to load `a @ b` again.
#
# **[Grouped ordering](../glossary.md#grouped-ordering).** Suppose that 16 programs run at the same time. If programs
# are numbered row by row, these 16 compute a row of 16 tiles of C. They read one strip of A (`BLOCK_M` rows) and 16
# strips of B (`BLOCK_N` columns each). If the 16 programs compute a square of 4 × 4 tiles instead, they read only 4
# strips of A and 4 strips of B. So number the tiles in *groups* of `GROUP_M` rows of tiles, one group after another.
# Within a group, go down the first column of tiles, then down the next column. The last group may have fewer rows. For
# M = N = K = 16384 on an A100, another course reports {claim: rows_order_a100} without groups, and
# {claim: grouped_order_a100} with groups; we did not measure this. (1 TFLOP/s is 10¹² FLOPs per second.)
#
# In the check, C has 8 × 8 tiles of 16 × 16 elements, K is 32, `GROUP_M` is 4, and a [wave](../glossary.md#wave) has 16
# programs. Without groups, a wave reads 2 strips of A and 8 strips of B. With groups, it reads 4 of each. A strip has
# 16 · 32 elements, as many as 2 tiles of C, and a wave stores 16 tiles of C. So the ratio of bytes read to bytes stored
# is (2 + 8) · 2 / 16 = 1.25 without groups, and (4 + 4) · 2 / 16 = 1 with groups. The check allows 1.15.
#
# <details><summary>Hint 1</summary>A group has <code>GROUP_M * tiles_n</code> programs. Which group contains program
# <code>pid</code>? Let <code>first_m</code> be the first row of tiles of this group.</details>
# <details><summary>Hint 2</summary>The last group has <code>tl.minimum(tiles_m - first_m, GROUP_M)</code> rows. Divide
# the program's index within its group by this number of rows. The remainder is the row within the group, and the
# quotient is the column.</details>
# <details><summary>Hint 3</summary>Load the bias with <code>offs_n</code>, convert it to fp32, and add <code>bias[None,
# :]</code> to <code>acc</code>.</details>


# %% cell="given" id="activate"
ACTIVATIONS = ("none", "relu", "leaky_relu", "gelu")


@triton.jit
def activate(x, slope, ACTIVATION: tl.constexpr):
    """Apply relu, leaky_relu, gelu (its tanh approximation), or no activation."""
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
    """Return (row, column) of tile `pid`. A group is GROUP_M rows of tiles; within it, tiles go column by column."""
    ### BEGIN SOLUTION
    per_group = GROUP_M * tiles_n
    first_m = pid // per_group * GROUP_M
    rows = tl.minimum(tiles_m - first_m, GROUP_M)
    within = pid % per_group
    return first_m + within % rows, within // rows
    ### END SOLUTION


def few_for_small(configs, arguments, **_):
    """Called by autotune: keep only the first configuration for small matrices, and the others for large matrices."""
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
    """Compute a linear layer: matmul, bias, activation.

    out[i] = activate(a[i] @ b[i] + bias)

    a_ptr     (B, M, K)  input
    b_ptr     (B, K, N)  input
    bias_ptr  (N,)       input
    out_ptr   (B, M, N)  output
    One program computes BLOCK_M x BLOCK_N elements of one matrix; axis 1 of the grid is the batch.
    """
    pid_m, pid_n = grouped_tile(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    batch = tl.program_id(1).to(tl.int64)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    # The modulo replaces row and column indices past the end by existing ones, so loads of a and b need no masks along
    # M and N. (Your store must mask these rows and columns.) If BLOCK_K divides K, the loads need no mask at all:
    # `triton.heuristics` above computes EVEN_K before each launch.
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
def linear(a, b, bias, slope, out, activation=2):
    """Launch linear_kernel. `activation` is an index of ACTIVATIONS: 2 is leaky_relu."""
    B, M, K = a.shape
    N = b.shape[2]
    linear_kernel[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]), B)](
        a, b, bias, out, slope, M, N, K, *a.stride(), *b.stride(), *out.stride(), ACTIVATION=ACTIVATIONS[activation]
    )


lab.tiny("14_matmul_triton/linear")

# %% cell="check" exercise="14_matmul_triton/linear"
lab.check("14_matmul_triton/linear")

# %%
# The picture shows your programs of level 2, in the order in which they stored their tiles. On a GPU, the cell also
# prints the speed of both levels.
for name in ("matmul_relu", "linear"):
    print(lab.benchmark(f"14_matmul_triton/{name}") or "")
tiles.stepper(tiles.recorded(linear, 96, 96, (16, 16)), k_tiles=4, running=6, l2_tiles=28)

# %% [markdown]
# On a GPU, [`autotune`](../glossary.md#autotuning) timed the configurations that `few_for_small` returns, once for each
# (M, N, K), and kept the fastest. Try other configurations in `CONFIGS`, such as `GROUP_M=1`, and compare the speed.
#
# **Tensor cores.** `tl.dot` compiles to [tensor core](../glossary.md#tensor-core) instructions if the GPU has them for
# the dtype. But current Triton does not generate these instructions for the T4, a GPU of the Turing generation
# ([compute capability](../glossary.md#compute-capability) 7.5, or sm_75). The next cell compiles your kernel for Turing
# (sm_75), Ampere (sm_80) and Hopper (sm_90), and prints its multiply instructions.

# %%
lab.claims("14_matmul_triton")  # a two-minute quiz: predict each number, then compare
x = torch.empty(64, 64, dtype=torch.float16)
for capability in (75, 80, 90):
    options = dict(BLOCK_M=64, BLOCK_N=64, BLOCK_K=32)
    arguments = (x, x, x, 64, 64, 64, *x.stride(), *x.stride(), *x.stride())
    print(f"sm_{capability}:", tiles.machine_code(matmul_relu_kernel, arguments, options, capability))

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** For M = N = K = 8192 in fp16, the three matrices take {claim: matmul_triton_8192_matrices}. Compare this
# with the result of `loaded_bytes(8192, 8192, 8192, 128, 256, 2)`. On an H200, a Triton kernel with these tiles and
# grouped ordering took {claim: matmul_triton_8192_ms}, and a copy kernel reached {claim: matmul_h200_copy_bandwidth}.
# Do most of the loaded bytes come from memory, or from the L2? How would your answer change if tiles were numbered row
# by row, and why?
#
# ### BEGIN SOLUTION
# The programs load {claim: matmul_triton_8192_loaded}, which is {claim: matmul_triton_8192_rate}, about twice what
# memory delivers. So at least half of the loaded bytes hit the L2. Row by row, a wave of 132 tiles covers about 4 rows
# of 32 tiles. The wave needs 4 strips of 128 rows of A, and all of B. The next wave needs all of B again, which does
# not fit in the L2. In groups of 8 rows, a wave covers about 8 × 17 tiles. It needs 8 strips of A and 17 of B; the
# strips of A stay in the L2 for the group's next columns.
# ### END SOLUTION

# %% [markdown]
# **Next.** In `14_matmul_triton_persistent`, the [TMA](../glossary.md#tma), Hopper's copy engine, copies the tiles.
# There, several programs compute one tile together if C has few tiles.
#
# **In practice** you call `torch.matmul`. With `mode="max-autotune"`, `torch.compile` generates a Triton kernel with a
# fused epilogue, like yours, where this is faster. You write your own kernel for other epilogues, other dtypes, or
# [quantized](../glossary.md#quantization) weights.
#
# **Reading.** [Triton's tutorial on matrix
# multiplication](https://triton-lang.org/main/getting-started/tutorials/03-matrix-multiplication.html).

# %% [markdown]
# # Bug hunt: matmul in Triton
#
# **You will** find one bug in each of three matmul kernels. First the kernels show only what they do: cases that fail,
# values, counts. You name line and cause, then you fix the kernel.
#
# **You will learn to**
# - choose shapes that tell BLOCK_M, BLOCK_N and BLOCK_K apart;
# - follow the order of tiles at the edge of a matrix;
# - ask what an atomic promises about the stores before it.
#
# **You need** `14_matmul_triton` and `14_matmul_triton_persistent`. About 50 minutes. You need no GPU.
#
# Do not run the checks of the last section before you have named the bugs: they name causes, too.

# %% cell="setup"

# %% cell="given" id="launchers"
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


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
    # M and N. If BLOCK_K divides K, the loads need no mask at all:
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
    bias = tl.load(bias_ptr + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
    out = activate(acc + bias[None, :], slope, ACTIVATION)
    tl.store(out_ptrs, out, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


def linear(a, b, bias, slope, out, activation=2):
    """Launch linear_kernel. `activation` is an index of ACTIVATIONS: 2 is leaky_relu."""
    B, M, K = a.shape
    N = b.shape[2]
    linear_kernel[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]), B)](
        a, b, bias, out, slope, M, N, K, *a.stride(), *b.stride(), *out.stride(), ACTIVATION=ACTIVATIONS[activation]
    )


def split_config(M, N, K):
    """Return a tile's shape with launch options, and the number of programs per tile: as many as fit in one wave."""
    gpu, tiles = lab.device.current(), lambda m, n: triton.cdiv(M, m) * triton.cdiv(N, n)
    if M * N * K < 2**20:
        small = dict(BLOCK_M=16, BLOCK_N=16, BLOCK_K=32, num_warps=4, num_stages=2)
        return small, max(1, min(triton.cdiv(8, tiles(16, 16)), triton.cdiv(K, 64)))
    roomy = gpu and gpu.limits.shared_per_block_kb > 160
    BLOCK_M = 64 if M <= 64 else 128
    config = dict(BLOCK_M=BLOCK_M, BLOCK_N=128, BLOCK_K=64, num_warps=BLOCK_M // 16, num_stages=4 if roomy else 3)
    return config, max(1, min((gpu.sms if gpu else 8) // tiles(BLOCK_M, 128), K // 256))


def split_k(a, b, c, config=None, parts=None):
    (M, K), N = a.shape, b.shape[1]
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


# %% [markdown]
# ## 1 Matmul with ReLU
#
# The author tuned the tile sizes on one GPU and found that 64 × 64 × 64 is best. With these sizes, the kernel is right.
# The launcher chooses other sizes.


# %% cell="hunt" id="matmul_relu_kernel" exercise="15_hunt/matmul_relu"
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
        a = tl.load(a_ptrs, mask=mask_m & (k + offs_k[None, :] < K), other=0.0)
        b = tl.load(b_ptrs, mask=(k + offs_k[:, None] < K) & mask_n, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn
    tl.store(c_ptrs, tl.maximum(acc, 0.0), mask=mask_m & mask_n)
    ### END SOLUTION


# %%
lab.evidence("15_hunt/matmul_relu")

# %% [markdown]
# ## 2 Tiles in groups
#
# `grouped_tile` orders the tiles of a linear layer so that programs that run at the same time share rows and columns of
# the inputs. The kernel itself is given, and it is right.


# %% cell="hunt" id="linear_kernel" exercise="15_hunt/linear"
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


# %%
lab.evidence("15_hunt/linear")

# %% [markdown]
# ## 3 Split-K
#
# Several programs add their parts of a tile to an array of zeros. Each program then counts itself, and the last one of
# a tile stores it. Very rarely, some elements of a tile are too small.


# %% cell="hunt" id="split_k_kernel" exercise="15_hunt/split_k"
@triton.jit
def split_k_kernel(
    a_desc, b_desc, c_ptr, sums_ptr, arrived_ptr, M, N, K, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, B_IS_NK: tl.constexpr,
):  # fmt: skip
    """Compute c = max(a @ b, 0), with several programs per tile.

    a_desc       (M, K), tiles BLOCK_M x BLOCK_K
    b_desc       (K, N), tiles BLOCK_K x BLOCK_N; with B_IS_NK (N, K), tiles BLOCK_N x BLOCK_K
    c_ptr        (M, N)    output
    sums_ptr     (M, N)    fp32 zeros
    arrived_ptr  (tiles,)  int32 zeros
    One program accumulates one of `parts` parts of K for a tile; the last program of a tile stores it.
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


# %%
lab.evidence("15_hunt/split_k")

# %% [markdown]
# ## 4 Name the bugs
#
# Fill in `bug`: for each hunt, the line of its kernel's cell where the bug is, and the cause. Lines count from 1 (View
# → Show Line Numbers). If several lines can be changed to fix the bug, any of them is right.
#
# The causes to choose from:
#
# - wrong tile size
# - partial group of tiles
# - missing barrier
# - missing accumulation
# - too few bits
# - missing mask
# - swapped strides
# - epilogue in the loop
#
# <details><summary>Hint 1</summary><code>matmul_relu</code>: which dimension of a tile does each pointer walk
# along?</details>
# <details><summary>Hint 2</summary><code>linear</code>: compute (row, column) of all tiles for 3 × 2 tiles and groups
# of 2.</details>
# <details><summary>Hint 3</summary><code>split_k</code>: a program's threads add their elements one by one. Which of
# them counts the program, and when?</details>


# %% cell="solution" id="bug"
def bug(hunt):
    """Return the line and the cause of a hunt's bug, such as {"line": 12, "cause": "…"}.

    hunt  "matmul_relu" or "linear" or "split_k"
    """
    ### BEGIN SOLUTION
    found = {
        "matmul_relu": {"line": 28, "cause": "wrong tile size"},
        "linear": {"line": 6, "cause": "partial group of tiles"},
        "split_k": {"line": 27, "cause": "missing barrier"},
    }
    return found[hunt]
    ### END SOLUTION


# %% cell="check" exercise="15_hunt/bug"
lab.check("15_hunt/bug")

# %% [markdown]
# ## 5 Fix them
#
# Change the kernels in their cells above, run the cells, and check. A fix needs few characters or lines; the rest of
# the kernel is right.

# %% cell="check" exercise="15_hunt/matmul_relu"
lab.check("15_hunt/matmul_relu")

# %% cell="check" exercise="15_hunt/linear"
lab.check("15_hunt/linear")

# %% cell="check" exercise="15_hunt/split_k"
lab.check("15_hunt/split_k")

# %% [markdown]
# **Next.** `15_matmul_cuda` writes the same kernels in CUDA C++, and `16_hunt` hides bugs in them.
#
# **In practice** keep each bug that you fix as a test: the smallest case that showed it.

# %% [markdown]
# # Fuse a row softmax into one kernel
#
# **You will** write the softmax of a matrix's rows four times: one row for each Triton program, several rows for
# programs that stay, one row for each warp and one for each block in CUDA C++.
#
# **You will learn to**
# - keep a ledger of bytes, and predict from it what fusion saves;
# - subtract the maximum, and pad a row so that the lanes beyond it change neither maximum nor sum;
# - choose the size of a grid from what the GPU holds at once;
# - pass one number to all lanes of a warp, and to all warps of a block;
# - have enough bytes on their way: loads of 16 bytes, into registers, before the first is used.
#
# **You need** `10_reduction`.
#
# About 100 minutes. Works without a GPU; only times need one.

# %% cell="setup"

# %% cell="given"
import functools

import torch
import triton
import triton.language as tl

from labutils import compiled, traffic


def naive_softmax(x):
    """Each line is a kernel of its own, that reads its inputs from memory and writes its result there."""
    largest = x.max(dim=1).values
    z = x - largest[:, None]
    e = torch.exp(z)
    total = e.sum(dim=1)
    return e / total[:, None]


# %% [markdown]
# ## Predict: what does the naive softmax move?
#
# $y_n = e^{x_n - m} / \sum_k e^{x_k - m}$ with $m = \max_k x_k$. Subtracting m changes nothing in exact arithmetic, but
# without it $e^{89}$ is inf in fp32, and inf / inf is NaN.
#
# Go through `naive_softmax` line by line, for a matrix of `M` rows and `N` columns: how many bytes does each line read,
# how many does it write? Vectors of M elements count too.


# %% cell="solution" id="naive_bytes"
def naive_bytes(M, N, itemsize):
    """Bytes that the five lines of naive_softmax read and write together."""
    ### BEGIN SOLUTION
    reads = M * N + (M * N + M) + M * N + M * N + (M * N + M)
    writes = M + M * N + M * N + M + M * N
    return (reads + writes) * itemsize
    ### END SOLUTION


# %% cell="check" exercise="11_softmax/naive_bytes"
lab.check("11_softmax/naive_bytes")


# %% cell="given"
# A neighbour of your kernel, finished: the largest entry of each row. Look at the lanes beyond the row.
@triton.jit
def row_max_kernel(x_ptr, out_ptr, N, stride_xm, BLOCK_N: tl.constexpr):
    """out[m] = max of row m; one program takes one row."""
    row = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=offs_n < N, other=-float("inf"))
    tl.store(out_ptr + row, tl.max(x))


def row_max(x, out):
    M, N = x.shape
    row_max_kernel[(M,)](x, out, N, x.stride(0), BLOCK_N=triton.next_power_of_2(N))


lab.access_map(row_max, torch.arange(60.0).reshape(5, 12), torch.empty(5), title="row_max: 5 rows of 12, blocks of 16")

# %% [markdown]
# ## 1 One row for each program
#
# `tl.arange` wants a power of two, so `BLOCK_N` is the first one at or above N. The row is loaded once, stays in
# registers, and y is stored once: 2MN elements in place of 8MN + 4M.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_ptr`, `out_ptr` | (M, N) | input, output (fp32, fp16 or bf16); rows `stride_xm`, `stride_om` elements apart |
# | `N` | number | columns, any number from 1 on |
# | `BLOCK_N` | constant | a power of two ≥ N |
#
# **Contract.** Arithmetic is in fp32. -inf is a legal entry: masked attention scores are -inf, and get exactly 0. A row
# in which *every* entry is -inf has no softmax, 0/0: it becomes NaN, as in PyTorch. Nothing else may.
#
# <details><summary>Hint 1</summary>Lanes past the end take part in two reductions. Which value changes no maximum?
# What becomes of it under exp, and does that change the sum?</details>
# <details><summary>Hint 2</summary>Load as <code>row_max_kernel</code> does, convert to fp32, and store with the mask
# too.</details>
# <details><summary>Hint 3</summary><code>tl.max</code>, <code>tl.exp</code>, <code>tl.sum</code>, one
# division.</details>


# %% cell="solution" id="softmax_kernel"
@triton.jit
def softmax_kernel(x_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    """Softmax of each row.

    out[m, n] = exp(x[m, n] - max_k x[m, k]) / sum_k exp(x[m, k] - max)

    x_ptr    (M, N)  input, rows stride_xm apart
    out_ptr  (M, N)  output, rows stride_om apart
    One program computes one row, m = pid.
    """
    row = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    ### BEGIN SOLUTION
    # -inf beyond the row: no maximum, and exp(-inf) = 0 in the sum
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x))
    tl.store(out_ptr + row * stride_om + offs_n, e / tl.sum(e), mask=mask_n)
    ### END SOLUTION


# %% cell="given" id="softmax"
def softmax(x, out):
    M, N = x.shape
    BLOCK_N = triton.next_power_of_2(N)
    num_warps = min(max(BLOCK_N // 512, 1), 16)  # 16 elements a thread: four loads of 16 bytes on their way
    softmax_kernel[(M,)](x, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N, num_warps=num_warps)


lab.tiny("11_softmax/softmax")

# %% cell="check" exercise="11_softmax/softmax"
lab.check("11_softmax/softmax")

# %%
x, y = torch.arange(60.0).reshape(5, 12), torch.empty(5, 12)
display(lab.access_map(softmax, x, y, title="your softmax: one load, one store"))
traffic.ledger(
    {
        "naive": {"max": (60, 5), "x − max": (65, 60), "exp": (60, 60), "sum": (60, 5), "e / sum": (65, 60)},
        "fused": {"softmax": (60, 60)},
    },
    {"fused": traffic.elements(softmax, x, y)},
    title="Elements moved for 5 rows of 12",
)

# %% [markdown]
# When a check fails:
#
# | what it says | a common cause |
# |---|---|
# | `padded-lanes` | `other=0.0`: each lane beyond the row adds exp(0 − m) to the sum, and 0 may be the maximum |
# | `no-max-subtraction` | exp of the entries themselves: inf from 89 on |
# | `overflow` | NaN in rows that have a finite entry: -inf − -inf in one lane spoils the whole sum |
# | `precision` | exp or the sum in fp16: convert right after the load |
# | `wrong-stride` | rows were taken to lie directly behind each other |
# | `missing-syncthreads` | a block's shared memory is used again before every warp has read it |
#
# ## 2 Programs that stay
#
# A row of 256 elements is 1 KB: too little for a program that must first be started, then wait for memory. Let a
# program take a *tile* of `BLOCK_M` rows, and when it is done, the next tile: tile `pid`, then `pid` + all programs,
# and so on. How many programs the GPU holds at once follows from the registers and the shared memory of the compiled
# kernel (`03_occupancy`); the launcher starts 16 times as many. On an H200 that moved rows of 256 at 4.09 TB/s, one
# round of programs at 3.8: they begin together, then all load, then all store. With `num_stages` in `tl.range` the
# compiler loads the next tile while this one is computed.
#
# <details><summary>Hint 1</summary>A tile has two axes: <code>offs_m[:, None]</code> times the stride, plus
# <code>offs_n[None, :]</code>. Its mask needs both.</details>
# <details><summary>Hint 2</summary>Reduce along axis 1, and keep that axis (<code>keep_dims=True</code>), so that the
# result fits to the tile again.</details>
# <details><summary>Hint 3</summary>Rows past M hold nothing but -inf: NaN comes of that, and the mask of the store
# keeps it away from memory.</details>


# %% cell="solution" id="persistent_softmax_kernel"
@triton.jit
def persistent_softmax_kernel(
    x_ptr, out_ptr, M, N, stride_xm, stride_om, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr
):
    """Softmax of each row.

    out[m, n] = exp(x[m, n] - max_k x[m, k]) / sum_k exp(x[m, k] - max)

    x_ptr    (M, N)  input, rows stride_xm apart
    out_ptr  (M, N)  output, rows stride_om apart
    One program computes every P-th tile of BLOCK_M rows, for P programs.
    """
    offs_n = tl.arange(0, BLOCK_N)
    for start in tl.range(tl.program_id(0) * BLOCK_M, M, tl.num_programs(0) * BLOCK_M, num_stages=STAGES):
        ### BEGIN SOLUTION
        offs_m = start + tl.arange(0, BLOCK_M)
        mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
        x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_n[None, :]
        x = tl.load(x_ptrs, mask=mask, other=-float("inf")).to(tl.float32)
        e = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
        y = e / tl.sum(e, axis=1, keep_dims=True)
        tl.store(out_ptr + offs_m[:, None] * stride_om + offs_n[None, :], y, mask=mask)
        ### END SOLUTION


# %% cell="given" id="persistent_softmax"
def persistent_settings(N):
    """Tile and options for rows of N elements; `python -m bench.softmax --tune` measured them on an H200."""
    BLOCK_N = max(128, triton.next_power_of_2(N))
    BLOCK_M = 2048 // BLOCK_N if BLOCK_N <= 512 else 1
    num_warps = min(max(BLOCK_M * BLOCK_N // 1024, 1), 16)
    return dict(BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, STAGES=2 if BLOCK_N <= 8192 else 1, num_warps=num_warps)


@functools.cache
def programs_that_stay(N, dtype, device):
    """Asks the compiler once for each kind of launch: the answer depends on registers and shared memory."""
    x = torch.empty(1, N, dtype=dtype, device=device)
    return compiled.staying(persistent_softmax_kernel, x, x, 1024, N, N, N, **persistent_settings(N))


def persistent_softmax(x, out):
    M, N = x.shape
    settings = persistent_settings(N)
    programs = min(triton.cdiv(M, settings["BLOCK_M"]), programs_that_stay(N, x.dtype, x.device))
    persistent_softmax_kernel[(programs,)](x, out, M, N, x.stride(0), out.stride(0), **settings)


lab.tiny("11_softmax/persistent_softmax")

# %% cell="check" exercise="11_softmax/persistent_softmax"
lab.check("11_softmax/persistent_softmax")

# %% [markdown]
# ## 3 A warp for each row, in CUDA C++
#
# Rows of up to 1024 columns: each lane keeps 32 numbers in registers, `v[k]` from column `lane + 32·k`, so that the
# lanes of a load lie side by side. No shared memory and no barrier: maximum and sum go round the warp with
# `__shfl_xor_sync(0xffffffff, value, s)`, which gives the value of the lane whose number differs in bit s. After
# s = 16, 8, 4, 2, 1 *every* lane has the result, not only lane 0.
#
# <details><summary>Hint 1</summary>Five small loops: load and maximum, shuffle the maximum, exp and sum, shuffle the
# sum, store.</details>
# <details><summary>Hint 2</summary><code>-INFINITY</code> beyond the row; <code>fmaxf</code>; <code>expf</code>. The
# loops over k run to 32 always, so that the compiler can keep v in registers: <code>#pragma unroll</code>.</details>
# <details><summary>Hint 3</summary>Guard the loads and the stores with n &lt; N, and nothing else: all lanes must
# reach the shuffles.</details>

# %% cell="solution" id="warp_softmax_kernel"
# %%cuda
# // out[m, n] = exp(x[m, n] - max) / sum, a row of at most 1024 columns for each warp.
# // x and out are (M, N), rows directly behind each other.
# __global__ void warp_softmax_kernel(const float *x, float *out, int M, int N) {
#     int lane = threadIdx.x % 32;
#     int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
#     if (row >= M) return;  // all lanes of a warp have the same row
#     float v[32];
#     // ### BEGIN SOLUTION
#     float largest = -INFINITY, sum = 0.0f;
#     #pragma unroll
#     for (int k = 0; k < 32; k++) {
#         int n = lane + 32 * k;
#         v[k] = n < N ? x[row * N + n] : -INFINITY;
#         largest = fmaxf(largest, v[k]);
#     }
#     for (int s = 16; s > 0; s /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, s));
#     #pragma unroll
#     for (int k = 0; k < 32; k++) {
#         v[k] = expf(v[k] - largest);
#         sum += v[k];
#     }
#     for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffff, sum, s);
#     #pragma unroll
#     for (int k = 0; k < 32; k++) {
#         int n = lane + 32 * k;
#         if (n < N) out[row * N + n] = v[k] / sum;
#     }
#     // ### END SOLUTION
# }


# %% cell="given" id="warp_softmax"
def warp_softmax(x, out):
    M, N = x.shape
    warp_softmax_kernel[triton.cdiv(M, 4), 128](x, out, M, N)


lab.tiny("11_softmax/warp_softmax")

# %% cell="check" exercise="11_softmax/warp_softmax"
lab.check("11_softmax/warp_softmax")

# %% [markdown]
# ## 4 A block for each row
#
# A longer row takes as many warps as it needs with 32 numbers a thread: 64 threads for 2048 columns, 1024 for 32 768.
# They stay in registers as before, but `load4` brings four at a time, a `float4` (`07_elementwise_cuda`): of T threads,
# thread t takes columns 4t to 4t + 3, then those 4T further on, 8 times in all. Where rows do not begin at multiples of
# 16 bytes, its columns lie T apart, from t on. `first` and `step` say which; the rest of the kernel need not know.
#
# Why registers, and why eight loads at once? By Little's law (`01_hardware`) an H200 must have about 2 TB/s · 335 ns of
# x in flight (664 cycles on an idle GPU, more under load): 5 KB for each SM. In `for (n = t; n < N; n += T) row[n] =
# x[n];`, with `row` in shared memory, each store waits for its load, and the next load comes after the store: 4 bytes a
# thread on their way. Loads into registers that nobody reads yet wait for nothing: with 1024 threads on an SM, all 128
# KB.
#
# A reduction has two levels: shuffles within each warp, then lane 0 of each warp writes its number into `part`, and
# after a barrier every warp reduces the numbers of all `warps` by shuffles once more.
#
# <details><summary>Hint 1</summary>Fill all of v in a loop of its own, and only then look at it: <code>load4(&amp;v[k],
# x, first + k * blockDim.x, step, N)</code> for k = 0, 4, …, 28. <code>store4</code> takes the same places, with v
# last.</details>
# <details><summary>Hint 2</summary>Before <code>part</code> is written for the sum, all warps must have read the maxima
# in it.</details>
# <details><summary>Hint 3</summary>A row may have fewer than 32 warps: the lanes from <code>warps</code> on take part
# in the second round with -INFINITY, or 0 for the sum. Divide once, 1 / sum, and multiply.</details>

# %% cell="solution" id="block_softmax_kernel"
# %%cuda
# // v[0] … v[3] = columns n, n + step, n + 2 * step, n + 3 * step of a row, -INFINITY from column N on. With step 1 one
# // load brings all four: n and N are multiples of 4 then, and the row begins at a multiple of 16 bytes.
# __device__ void load4(float *v, const float *row, int n, int step, int N) {
#     if (step == 1) {
#         float4 q = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
#         if (n < N) q = *reinterpret_cast<const float4 *>(row + n);
#         v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
#     } else {
#         for (int e = 0; e < 4; e++) v[e] = n + e * step < N ? row[n + e * step] : -INFINITY;
#     }
# }
# // The same columns of a row = v[0] … v[3], none from column N on.
# __device__ void store4(float *row, int n, int step, int N, const float *v) {
#     if (step > 1) {
#         for (int e = 0; e < 4; e++) if (n + e * step < N) row[n + e * step] = v[e];
#     } else if (n < N) *reinterpret_cast<float4 *>(row + n) = make_float4(v[0], v[1], v[2], v[3]);
# }
#
# // out[m, n] = exp(x[m, n] - max) / sum, a row for each block, at most 32 columns for each thread.
# // x and out are (M, N), rows directly behind each other; with `quads` N and both addresses are multiples of 4 floats.
# __global__ void __launch_bounds__(1024) block_softmax_kernel(const float *x, float *out, int N, bool quads) {
#     __shared__ float part[32];
#     int t = threadIdx.x, lane = t % 32, warp = t / 32, warps = blockDim.x / 32;
#     int first = quads ? 4 * t : t, step = quads ? 1 : blockDim.x;
#     x += blockIdx.x * N;
#     out += blockIdx.x * N;
#     float v[32];
#     // ### BEGIN SOLUTION
#     float largest = -INFINITY, sum = 0.0f;
#     #pragma unroll
#     for (int k = 0; k < 32; k += 4) load4(&v[k], x, first + k * blockDim.x, step, N);
#     #pragma unroll
#     for (int k = 0; k < 32; k++) largest = fmaxf(largest, v[k]);
#     for (int s = 16; s > 0; s /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, s));
#     if (lane == 0) part[warp] = largest;
#     __syncthreads();
#     largest = lane < warps ? part[lane] : -INFINITY;
#     for (int s = 16; s > 0; s /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, s));
#     #pragma unroll
#     for (int k = 0; k < 32; k++) {
#         v[k] = expf(v[k] - largest);
#         sum += v[k];
#     }
#     for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffff, sum, s);
#     __syncthreads();  // everyone has read the maxima
#     if (lane == 0) part[warp] = sum;
#     __syncthreads();
#     sum = lane < warps ? part[lane] : 0.0f;
#     for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffff, sum, s);
#     float scale = 1.0f / sum;
#     #pragma unroll
#     for (int k = 0; k < 32; k++) v[k] *= scale;
#     #pragma unroll
#     for (int k = 0; k < 32; k += 4) store4(out, first + k * blockDim.x, step, N, &v[k]);
#     // ### END SOLUTION
# }


# %% cell="given" id="block_softmax"
def block_softmax(x, out):
    M, N = x.shape
    threads = max(64, 32 * triton.cdiv(N, 1024))  # whole warps, at most 32 columns for each thread
    quads = N % 4 == 0 and x.data_ptr() % 16 == 0 and out.data_ptr() % 16 == 0
    block_softmax_kernel[M, threads](x, out, N, quads)


lab.tiny("11_softmax/block_softmax")

# %% cell="check" exercise="11_softmax/block_softmax"
lab.check("11_softmax/block_softmax")

# %% [markdown]
# ## 5 Measure
#
# The claim in circulation, for an A100: a fused softmax reaches 1500 GB/s where `torch.softmax` reaches 600 to 700. On
# your GPU, with the copy as the roof: which row lengths does each kernel like, and where do they bend?

# %%
LENGTHS = [256, 512, 1024, 2048, 4096, 8192, 16384, 32768]
KERNELS = {"fused": softmax, "persistent": persistent_softmax, "naive": lambda x, out: naive_softmax(x)}
print("Claim (A100): fused 1500 GB/s, torch.softmax 600-700 GB/s.")
print("Stored (H200, 16384 × 4096 fp32): torch.softmax 2495 GB/s, fused 4020, copy 4133.")
traffic.sweep(LENGTHS, KERNELS | {"torch.softmax": lambda x, out: torch.softmax(x, 1)}, elements=2**26)

# %%
for name in ("softmax", "persistent_softmax", "warp_softmax", "block_softmax") if lab.device.has_gpu() else ["softmax"]:
    print(lab.benchmark(f"11_softmax/{name}") or "")

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** From your ledger, how much faster than the naive softmax should the fused one be, and (on your GPU, or
# with the figures of an H200 above) how much of that arrives? `torch.softmax` is one kernel too and reads each element
# from memory once: name something other than bytes that may hold it back.
#
# ### BEGIN SOLUTION
# 8MN + 4M against 2MN elements: a factor of 4, and a little more for short rows. On a large matrix all five naive
# kernels run near the copy's bandwidth, so nearly all of it arrives. torch.softmax moves as few bytes, but reached 59 %
# of the copy's bandwidth at 4096 columns: its blocks wait for memory, then for each other in the reductions, with too
# little on its way in the meantime; kernels with more loads in flight and more rows per SM hide that wait.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** Give `softmax_kernel` a scale: softmax(x · s), as attention needs it. Write the backward pass, dx = y
# · (dy − Σ y·dy), with the same ledger. Replace `expf` by `__expf`, or exp by exp2 of a pre-scaled x: does a kernel
# that waits for memory notice? How many blocks of `block_softmax` does an SM hold at 2048 columns, how many at 32 768
# (`03_occupancy`), and why is the longest row farthest from the copy? With 256 threads for every row, and the row in
# shared memory, it was 0.61 of an H200's copy at 2048 columns and 0.12 at 32 768: what had an SM on its way?
#
# **In practice** `torch.softmax` picks among such kernels by the length of the row, and attention does not compute a
# softmax of its own at all (`17_flash_attention`). Rows that fit no program are the next unit's.
#
# **Reading.** [Triton's fused softmax](https://triton-lang.org/main/getting-started/tutorials/02-fused-softmax.html):
# persistent rows and occupancy. [QuACK](https://github.com/Dao-AILab/quack):
# softmax and RMSNorm at the speed of memory on Hopper, with clusters of blocks for rows of 100 000 elements.

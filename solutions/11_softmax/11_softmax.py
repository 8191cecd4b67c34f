# %% [markdown]
# # Fuse a row softmax into one kernel
#
# **You will** write four kernels that compute the [softmax](../glossary.md#softmax) of each row of a matrix. In Triton,
# a [program](../glossary.md#program) computes one row, or in a [persistent kernel](../glossary.md#persistent-kernel) it
# computes many rows. In CUDA C++, a [warp](../glossary.md#warp) or a [block](../glossary.md#block) computes one row.
#
# **You will learn to**
# - count bytes in a [ledger](../glossary.md#ledger), and predict how much faster [fusion](../glossary.md#fusion) makes
#   a kernel;
# - subtract the maximum, and [mask](../glossary.md#mask) elements past the end of a row so that they change neither the
#   maximum nor the sum;
# - choose the [grid](../glossary.md#grid) size from the number of programs that the GPU runs at once;
# - share the result of a reduction with all [lanes](../glossary.md#lane) of a warp, and with all warps of a block;
# - keep enough bytes [in flight](../glossary.md#in-flight) with several 16-byte loads into
#   [registers](../glossary.md#register).
#
# **You need** `10_warp_reduction`. About 100 minutes. You need a GPU only to measure times.
#
# ## Predict: how many bytes does the naive softmax move?
#
# The softmax of a row x is $y_n = e^{x_n - m} / \sum_k e^{x_k - m}$ with $m = \max_k x_k$. In exact arithmetic the
# result is the same without m. But in [fp32](../glossary.md#fp32) $e^{89}$ is inf, and inf / inf is NaN.
#
# Each line of `naive_softmax` below runs one kernel. For a matrix of `M` rows and `N` columns, how many bytes does each
# line read and write? Include the vectors `largest` and `total`, which have `M` elements each. Write `naive_bytes`,
# which returns the sum for all five lines.

# %% cell="setup"

# %% cell="given" id="launchers"
import functools

import torch
import triton
import triton.language as tl

from labutils import compiled, traffic


def naive_softmax(x):
    """Each line is a separate kernel, which reads its inputs from memory and writes its result there."""
    largest = x.max(dim=1).values
    z = x - largest[:, None]
    e = torch.exp(z)
    total = e.sum(dim=1)
    return e / total[:, None]


def softmax(x, out):
    M, N = x.shape
    BLOCK_N = triton.next_power_of_2(N)
    num_warps = min(max(BLOCK_N // 512, 1), 16)  # mostly 16 elements per thread: in fp32, four 16-byte loads
    softmax_kernel[(M,)](x, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N, num_warps=num_warps)


def persistent_settings(N):
    """Tile size and launch options for rows of N elements, tuned on an H200 by `python -m bench.softmax --tune`."""
    BLOCK_N = max(128, triton.next_power_of_2(N))
    if BLOCK_N <= 1024:  # one warp with whole rows: no barriers in its reductions
        return dict(BLOCK_M=1024 // BLOCK_N, BLOCK_N=BLOCK_N, STAGES=1, num_warps=1)
    return dict(BLOCK_M=1, BLOCK_N=BLOCK_N, STAGES=2 if BLOCK_N <= 8192 else 1, num_warps=min(BLOCK_N // 1024, 16))


@functools.cache
def persistent_programs(N, dtype, device):
    """Number of programs to start. It depends on the registers and the shared memory that the compiled kernel needs."""
    x = torch.empty(1, N, dtype=dtype, device=device)
    return compiled.persistent_grid(persistent_softmax_kernel, x, x, 1024, N, N, N, **persistent_settings(N))


def persistent_softmax(x, out):
    M, N = x.shape
    settings = persistent_settings(N)
    programs = min(triton.cdiv(M, settings["BLOCK_M"]), persistent_programs(N, x.dtype, x.device))
    persistent_softmax_kernel[(programs,)](x, out, M, N, x.stride(0), out.stride(0), **settings)


def warp_softmax(x, out):
    M, N = x.shape
    warp_softmax_kernel[triton.cdiv(M, 4), 128](x, out, M, N)


def block_softmax(x, out):
    M, N = x.shape
    threads = max(64, 32 * triton.cdiv(N, 1024))  # whole warps, at most 32 columns per thread
    quads = N % 4 == 0 and x.data_ptr() % 16 == 0 and out.data_ptr() % 16 == 0
    block_softmax_kernel[M, threads](x, out, N, quads)


# %% cell="solution" id="naive_bytes"
def naive_bytes(M, N, itemsize):
    """Total bytes that the five lines of naive_softmax read and write, with itemsize bytes per element."""
    ### BEGIN SOLUTION
    reads = M * N + (M * N + M) + M * N + M * N + (M * N + M)
    writes = M + M * N + M * N + M + M * N
    return (reads + writes) * itemsize
    ### END SOLUTION


# %% cell="check" exercise="11_softmax/naive_bytes"
lab.check("11_softmax/naive_bytes")

# %% [markdown]
# ## 1 One row per program
#
# The size of `tl.arange` must be a power of two, so `BLOCK_N` is the smallest power of two that is at least N. Load the
# row once, keep it in registers, and store the result y once. The kernel then moves 2MN elements for M rows.
#
# **Contract.** x and y are fp32, [fp16](../glossary.md#fp16) or [bf16](../glossary.md#bf16); compute in fp32 for all
# three types. An element of x may be -inf; its result is exactly 0. (Attention uses -inf for elements that must get the
# weight 0.) If *every* element of a row is -inf, x − m is -inf − -inf: the results are NaN, as in PyTorch. No other
# result may be NaN.
#
# `N` and the strides are constants, for two reasons:
#
# - Of an ordinary integer argument, Triton knows only whether it is 1 and whether it is divisible by 16. 5000 is
#   divisible by 8, but not by 16: for fp16 rows of 5000 columns, Triton could not prove that a 16-byte load is aligned
#   and stays inside the row, and each thread would load 2 bytes at a time.
# - With a constant N, the compiler removes loads that are past the end of the row in every thread. For 20 000 fp32
#   columns, 10 of 16 loads per thread remain, and 64 instead of 101 registers. So two programs fit on an
#   [SM](../glossary.md#sm), not one.
#
# On an H200 in fp32, constants raised the bandwidth from {claim: softmax_arguments_9000} to
# {claim: softmax_constants_9000} of a copy's for 9000 columns, and from {claim: softmax_arguments_20000} to
# {claim: softmax_constants_20000} for 20 000 columns. The price: Triton compiles the kernel again for every new N or
# stride.
#
# <details><summary>Hint 1</summary>Elements past the end of the row take part in the maximum and in the sum. Which
# value never changes a maximum? What is exp of this value, and does it change the sum?</details>
# <details><summary>Hint 2</summary>Load with <code>other=-float("inf")</code>, convert to fp32, and mask the store
# too.</details>
# <details><summary>Hint 3</summary>You need <code>tl.max</code>, <code>tl.exp</code>, <code>tl.sum</code> and one
# division.</details>


# %% cell="solution" id="softmax_kernel"
@triton.jit
def softmax_kernel(
    x_ptr, out_ptr, N: tl.constexpr, stride_xm: tl.constexpr, stride_om: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """Softmax of each row.

    out[m, n] = exp(x[m, n] - max) / sum_k exp(x[m, k] - max), where max = max_k x[m, k]

    x_ptr    (M, N)  input; rows are stride_xm elements apart
    out_ptr  (M, N)  output; rows are stride_om elements apart
    One program computes one row, m = pid.
    """
    row = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    ### BEGIN SOLUTION
    # -inf past the end never changes the maximum, and exp(-inf) adds 0 to the sum
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x))
    tl.store(out_ptr + row * stride_om + offs_n, e / tl.sum(e), mask=mask_n)
    ### END SOLUTION


# %% cell="check" exercise="11_softmax/softmax"
lab.tiny("11_softmax/softmax")
lab.check("11_softmax/softmax")

# %%
x, y = torch.arange(60.0).reshape(5, 12), torch.empty(5, 12)
display(lab.access_map(softmax, x, y, title="your softmax: one load, one store"))
display(lab.play(softmax, x, y))  # step through the programs, tile by tile
traffic.ledger(
    {  # for each step: (elements read, elements written)
        "naive": {"max": (60, 5), "x − max": (65, 60), "exp": (60, 60), "sum": (60, 5), "e / sum": (65, 60)},
        "fused": {"softmax": (60, 60)},
    },
    {"fused": traffic.elements(softmax, x, y)},
    title="Elements moved for 5 rows of 12 elements",
)

# %% [markdown]
# Use this table when a check of this notebook fails:
#
# | diagnosis | common cause |
# |---|---|
# | `padded-lanes` | `other=0.0`: each element past the end adds exp(0 − maximum) to the sum, and 0 may be the maximum |
# | `no-max-subtraction` | the kernel computes exp(x) instead of exp(x − maximum); exp(x) is inf for x ≥ 89 |
# | `overflow` | the maximum is taken over only a part of the row: if this part is all -inf, -inf − -inf is NaN |
# | `precision` | exp or the sum is computed in fp16: convert x to fp32 right after the load |
# | `wrong-stride` | the kernel assumes contiguous rows |
# | `missing-syncthreads` | (section 4) `part` is overwritten before all warps have read it |
#
# ## 2 A persistent kernel
#
# A row of 256 floats is only 1 KB. Starting a program and waiting for memory take long compared with the work on such a
# short row. In a persistent kernel, each of P programs processes several *[tiles](../glossary.md#tile)* of `BLOCK_M`
# rows: the program with [program ID](../glossary.md#program-id) `pid` processes tiles `pid`, `pid` + P, `pid` + 2P, and
# so on. The registers and [shared memory](../glossary.md#shared-memory) of the compiled kernel determine how many
# programs the GPU runs at once (`03_occupancy`).
#
# For rows of up to 1024 elements, a tile has 1024 elements and a program has only one warp: the reductions of a warp
# need no [barrier](../glossary.md#barrier).
#
# On a GPU, the launcher starts 16 times as many programs as the GPU runs at once. On an H200 with rows of 256 elements,
# the kernel then reached {claim: softmax_16_rounds}. Without the factor of 16, it reached only
# {claim: softmax_1_round}: then all programs load at the same time, and later all store at the same time. With more
# programs, the GPU starts a waiting program whenever one ends. Soon the programs are at different steps, and some load
# while others store. For longer rows, the launcher sets `num_stages` in `tl.range` to 2: a program then loads its next
# tile while it computes the current one ([software pipelining](../glossary.md#software-pipelining)).
#
# <details><summary>Hint 1</summary>A tile has two axes. Its offsets are <code>offs_m[:, None]</code> times the stride,
# plus <code>offs_n[None, :]</code>. Its mask must compare row indices with M and column indices with N.</details>
# <details><summary>Hint 2</summary>Reduce along axis 1 with <code>keep_dims=True</code>, so that the result broadcasts
# against the tile.</details>
# <details><summary>Hint 3</summary>Rows past M contain only -inf and become NaN. The mask of the store keeps the NaN
# out of memory.</details>


# %% cell="solution" id="persistent_softmax_kernel"
@triton.jit
def persistent_softmax_kernel(
    x_ptr, out_ptr, M, N: tl.constexpr, stride_xm: tl.constexpr, stride_om: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr
):  # fmt: skip
    """Softmax of each row.

    out[m, n] = exp(x[m, n] - max) / sum_k exp(x[m, k] - max), where max = max_k x[m, k]

    x_ptr    (M, N)  input; rows are stride_xm elements apart
    out_ptr  (M, N)  output; rows are stride_om elements apart
    A tile has BLOCK_M rows. Each of P programs computes every P-th tile.
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


# %% cell="check" exercise="11_softmax/persistent_softmax"
lab.tiny("11_softmax/persistent_softmax")
lab.check("11_softmax/persistent_softmax")

# %% [markdown]
# ## 3 One warp per row, in CUDA C++
#
# Here a row has at most 1024 columns. Each lane of the row's warp keeps 32 numbers in registers: `v[k]` is the number
# in column `lane + 32·k`, so that each load is [coalesced](../glossary.md#coalesced-access). Compute the maximum and
# the sum with `__shfl_xor_sync(0xffffffff, value, s)`, which returns the value of lane `lane ^ s`. After shuffles with
# `s` = 16, 8, 4, 2, 1, *every* lane has the result, without shared memory or a barrier.
#
# <details><summary>Hint 1</summary>Write five loops: load and maximum, shuffle the maximum, exp and sum, shuffle the
# sum, store.</details>
# <details><summary>Hint 2</summary>Use <code>-INFINITY</code> for columns past the end of the row, and the functions
# <code>fmaxf</code> and <code>expf</code>. Let the loops over <code>k</code> always run to 32 with <code>#pragma
# unroll</code>, so that the compiler keeps <code>v</code> in registers.</details>
# <details><summary>Hint 3</summary>Guard only loads and stores with <code>n &lt; N</code>: all lanes must reach the
# shuffles.</details>

# %% cell="solution" id="warp_softmax_kernel"
# %%cuda
# // out[m, n] = exp(x[m, n] - max) / sum. Each warp computes one row of at most 1024 columns.
# // x and out have shape (M, N) and contiguous rows.
# __global__ void warp_softmax_kernel(const float *x, float *out, int M, int N) {
#     int lane = threadIdx.x % 32;
#     int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
#     if (row >= M) return;  // all lanes of a warp have the same row, so they return together
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


# %% cell="check" exercise="11_softmax/warp_softmax"
lab.tiny("11_softmax/warp_softmax")
lab.check("11_softmax/warp_softmax")

# %% [markdown]
# ## 4 One block per row
#
# A longer row needs more threads. Each thread holds at most 32 numbers, so 2048 columns need 64 threads, and 32 768
# columns need 1024. The given function `load4` loads four numbers, if possible as one `float4` (`07_elementwise_cuda`).
# In a block of T threads, thread t first loads columns 4t to 4t + 3, then columns 4t + 4T to 4t + 4T + 3, and so on:
# eight calls of `load4` in total. If rows are not 16-byte aligned, thread t loads columns t, t + T, t + 2T, and so on,
# one number at a time. In the kernel, `first` is a thread's first column, and `step` (1 or T) is the distance between
# the four columns of one `load4`.
#
# Why should a thread issue eight loads at once? To be as fast as a copy, a softmax must load x at
# {claim: softmax_load_rate} on an H200. (A copy's bandwidth is twice this rate, because it counts loads and stores.) A
# load takes {claim: softmax_dram_latency} ({claim: softmax_dram_cycles}) on an idle GPU, and longer on a busy one. By
# [Little's law](../glossary.md#littles-law), the bytes in flight must be at least rate · latency:
# {claim: softmax_bytes_in_flight} for each of the 132 SMs. An alternative would be to copy each
# row to an array `row` in shared memory, with the loop `for (n = t; n < N; n += T) row[n] = x[n];`. Each store waits
# for its load, and the next load usually starts only after this store, so each thread has only 4 bytes in flight. But a
# thread that loads into registers can issue many loads before it uses the first result. If 1024 threads on an SM load
# 32 floats each, up to 128 KB are in flight.
#
# Reduce in two levels. First each warp reduces its numbers by shuffles, and lane 0 of the warp writes the result to the
# array `part` in shared memory. After a barrier, every warp reads all results from `part` and reduces them by shuffles.
#
# <details><summary>Hint 1</summary>Fill all of <code>v</code> in a separate loop before you use it:
# <code>load4(v, k, x, first + k * blockDim.x, step, N)</code> for k = 0, 4, …, 28. <code>store4</code> takes the
# same arguments, but with <code>v, k</code> last.</details>
# <details><summary>Hint 2</summary>Write the sums to <code>part</code> only after all warps have read the maxima from
# <code>part</code>.</details>
# <details><summary>Hint 3</summary>A block may have fewer than 32 warps. In the second level, the lanes whose index is
# <code>warps</code> or more contribute -INFINITY to the maximum and 0 to the sum. Compute 1 / sum once, and multiply by
# it.</details>
#
# **Extra.** On an H200, we also measured a kernel that copies each row to shared memory with the loop `for (n = t; n <
# N; n += T) row[n] = x[n];`, with 256 threads for every row length. It reached {claim: softmax_shared_2048} of a copy's
# [bandwidth](../glossary.md#bandwidth) at 2048 columns, and {claim: softmax_shared_32768} at 32 768 columns. The array
# `row` takes shared memory: how many blocks fit on an SM at each row length, and how many bytes are in flight?
#
# **In practice** `torch.softmax` chooses among such kernels by row length. In `12_online_softmax`, rows are too long
# for one program.

# %% cell="solution" id="block_softmax_kernel"
# %%cuda
# // Load columns n, n + step, n + 2 * step, n + 3 * step of a row into v[k] … v[k + 3]; past the end, load -INFINITY.
# // For step 1 this is one vectorized load: n and N are then multiples of 4, and the row is 16-byte aligned.
# __device__ void load4(float (&v)[32], int k, const float *row, int n, int step, int N) {
#     if (step == 1) {
#         float4 q = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
#         if (n < N) q = *reinterpret_cast<const float4 *>(row + n);
#         v[k] = q.x, v[k + 1] = q.y, v[k + 2] = q.z, v[k + 3] = q.w;
#     } else {
#         for (int e = 0; e < 4; e++) v[k + e] = n + e * step < N ? row[n + e * step] : -INFINITY;
#     }
# }
# // Store v[k] … v[k + 3] to the same columns, except past the end of the row.
# __device__ void store4(float *row, int n, int step, int N, const float (&v)[32], int k) {
#     if (step > 1) {
#         for (int e = 0; e < 4; e++) if (n + e * step < N) row[n + e * step] = v[k + e];
#     } else if (n < N) *reinterpret_cast<float4 *>(row + n) = make_float4(v[k], v[k + 1], v[k + 2], v[k + 3]);
# }
#
# // out[m, n] = exp(x[m, n] - max) / sum. Each block computes one row, with at most 32 columns per thread.
# // x, out: (M, N), contiguous rows. If `quads`, N is a multiple of 4, and both addresses are multiples of 16 bytes.
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
#     for (int k = 0; k < 32; k += 4) load4(v, k, x, first + k * blockDim.x, step, N);
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
#     __syncthreads();  // all warps have read the maxima
#     if (lane == 0) part[warp] = sum;
#     __syncthreads();
#     sum = lane < warps ? part[lane] : 0.0f;
#     for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffff, sum, s);
#     float scale = 1.0f / sum;
#     #pragma unroll
#     for (int k = 0; k < 32; k++) v[k] *= scale;
#     #pragma unroll
#     for (int k = 0; k < 32; k += 4) store4(out, first + k * blockDim.x, step, N, v, k);
#     // ### END SOLUTION
# }


# %% cell="check" exercise="11_softmax/block_softmax"
lab.tiny("11_softmax/block_softmax")
lab.check("11_softmax/block_softmax")

# %%
lab.claims("11_softmax")  # a two-minute quiz: predict each number, then compare
# Which row lengths suit each kernel, and where does its bandwidth drop? The copy shows what is achievable.
LENGTHS = [256, 512, 1024, 2048, 4096, 8192, 16384, 32768]
KERNELS = {"fused": softmax, "persistent": persistent_softmax, "naive": lambda x, out: naive_softmax(x)}
for name in ("softmax", "persistent_softmax", "warp_softmax", "block_softmax") if lab.device.has_gpu() else ["softmax"]:
    print(lab.benchmark(f"11_softmax/{name}") or "")
traffic.sweep(LENGTHS, KERNELS | {"torch.softmax": lambda x, out: torch.softmax(x, 1)}, elements=2**26)

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** A common claim for an A100 is {claim: softmax_a100_fused} for a fused softmax and
# {claim: softmax_a100_torch} for `torch.softmax`. On an H200 (16384 × 4096, fp32) we measured
# {claim: softmax_h200_fused} for the fused kernel, {claim: softmax_h200_torch} for `torch.softmax` and
# {claim: softmax_h200_copy} for a copy.
#
# According to your ledger, what is the speedup of the fused kernel over the naive softmax? If you have a GPU, compare
# this with your measurement. `torch.softmax` is also a single kernel that reads each element from memory once. Name
# something other than bytes that may limit its speed.
#
# ### BEGIN SOLUTION
# The naive softmax moves 8MN + 4M elements and the fused one 2MN: a factor of 4, and slightly more for short rows. On a
# large matrix all five naive kernels run near the bandwidth of a copy, so the measured factor is nearly as large.
# torch.softmax moves as few bytes as the fused kernel, but reached {claim: softmax_h200_torch_share} of the copy's
# bandwidth at 4096 columns: its blocks wait for memory and then for each other in the reductions, with too few bytes in
# flight meanwhile. Kernels with more loads in flight and more rows per SM hide that [latency](../glossary.md#latency).
# ### END SOLUTION

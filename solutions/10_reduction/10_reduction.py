# %% [markdown]
# # Add up a vector at the speed of memory
#
# **You will** write six CUDA C++ kernels that sum a vector, each of which repairs one fault of the one before, and two
# sums in Triton.
#
# **You will learn to**
# - reduce in a tree: in shared memory with barriers, in registers with warp shuffles;
# - see divergence, bank conflicts and barriers as counts, and remove them one by one;
# - sum any number of elements: in two launches, or in one with an atomic for each block.
#
# **You need** `07_elementwise_cuda`, `08_coalescing` and `09_shared_memory`.
#
# About 120 minutes. Works without a GPU; only times need one.

# %% cell="setup"

# %% [markdown]
# ## Predict: how many warps are busy?
#
# A block of 256 threads has 256 numbers in shared memory. It adds them in a *tree*: 128 additions at once, then 64,
# then 32 …: 8 steps in place of 255 additions one after another. The first version lets neighbours add: in the step
# with distance s = 1, 2, 4, …, 128, thread t adds element t + s to its own, if t is a multiple of 2·s.
#
# A warp costs its time as soon as one of its 32 lanes adds. How many warps hold a thread that adds? The number of
# threads and s are powers of two, and a block has at least 32 threads.


# %% cell="solution" id="busy_warps"
def busy_warps(threads, s):
    """Warps of a block that hold a multiple of 2·s, for 2·s <= threads."""
    ### BEGIN SOLUTION
    return threads // max(32, 2 * s)
    ### END SOLUTION


# %% cell="check" exercise="10_reduction/busy_warps"
lab.check("10_reduction/busy_warps")

# %% cell="given"
import torch
import triton
import triton.language as tl

from labutils import plots


def who_adds(ways, threads=64, steps=(1, 2, 4, 8, 16, 32)):
    """A mark for each thread that adds in the step of distance s; the line parts two warps."""
    fig = plots.figure(8.0, 1.5 * len(ways) + 0.6)
    for axis, (name, adds) in zip(fig.subplots(len(ways), 1, sharex=True), ways.items(), strict=True):
        for row, s in enumerate(steps):
            busy = [t for t in range(threads) if adds(t, s)]
            axis.plot(busy, [row] * len(busy), "s", markersize=4, color=plots.PALETTE[0])
        axis.axvline(31.5, color=plots.PALETTE[1])
        axis.set(title=name, ylabel="s", yticks=range(len(steps)), yticklabels=steps, ylim=(5.7, -0.7))
    axis.set_xlabel("thread")
    fig.alt = "Neighbours: both warps are busy in every step but the last. First threads: one warp in all of them."
    return fig


who_adds({"neighbours (V1)": lambda t, s: t % (2 * s) == 0, "first threads": lambda t, s: t < 32 // s})

# %% [markdown]
# ## V1 Neighbours first
#
# The kernel writes one partial sum for each block. A launcher then sums the partial sums with the same kernel, until
# one is left: blocks cannot wait for each other, but a launch waits for the one before. Loading and storing are given;
# you write the tree.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x` | (n,) | input |
# | `partial` | (blocks,) | output: the sum of each block's elements |
# | `n` | number | elements, any number from 1 on |
#
# <details><summary>Hint 1</summary>A loop over s that doubles, as long as s is less than <code>blockDim.x</code>. In
# it, the threads whose number is a multiple of 2·s add.</details>
# <details><summary>Hint 2</summary>The next step reads what other threads have just written: wait for them.</details>
# <details><summary>Hint 3</summary>Every thread of the block must reach the barrier, also those that do not add: close
# the if before it.</details>
#
# When a check of this unit fails:
#
# | what it says | a common cause |
# |---|---|
# | `missing-syncthreads` | no barrier between a write to `tile` and another thread's read, in one of the steps |
# | `barrier-divergence` | the barrier stands inside the if |
# | `uninitialised-shared`, `out-of-bounds` | threads past the end wrote no 0, or a step reads past the tile |
# | `missing-accumulation` | a step of the tree is left out: look at where the loop begins and ends |
# | `shuffle-mask`, `deadlock` | lanes that the mask names do not reach the shuffle |

# %% cell="solution" id="reduce_v1"
# %%cuda
# // One partial sum for each block: partial[b] = x[256·b] + … + x[256·b + 255], as far as these exist.
# __global__ void reduce_v1(const float *x, float *partial, int n) {
#     __shared__ float tile[256];
#     int t = threadIdx.x;
#     int i = blockIdx.x * blockDim.x + t;
#     tile[t] = i < n ? x[i] : 0.0f;  // 0 changes no sum
#     __syncthreads();
#     // ### BEGIN SOLUTION
#     for (int s = 1; s < blockDim.x; s *= 2) {
#         if (t % (2 * s) == 0) tile[t] += tile[t + s];
#         __syncthreads();
#     }
#     // ### END SOLUTION
#     if (t == 0) partial[blockIdx.x] = tile[0];
# }


# %% cell="given" id="launchers"
BLOCK = 256


def sum_in_launches(kernel, x, out, per_block):
    """Each launch leaves one partial sum for each block; the last one has a single block, and leaves the total."""
    n = x.numel()
    while n > per_block:
        blocks = triton.cdiv(n, per_block)
        partial = torch.empty(blocks, device=x.device)
        kernel[blocks, BLOCK](x, partial, n)
        x, n = partial, blocks
    kernel[1, BLOCK](x, out, n)


def sum_v1(x, out):
    sum_in_launches(reduce_v1, x, out, BLOCK)


def sum_v2(x, out):
    sum_in_launches(reduce_v2, x, out, BLOCK)


def sum_v3(x, out):
    sum_in_launches(reduce_v3, x, out, BLOCK)


def sum_v4(x, out):
    sum_in_launches(reduce_v4, x, out, 2 * BLOCK)


def sum_v5(x, out):
    sum_in_launches(reduce_v5, x, out, 2 * BLOCK)


lab.tiny("10_reduction/sum_v1")

# %% cell="check" exercise="10_reduction/sum_v1"
lab.check("10_reduction/sum_v1")

# %% [markdown]
# ## V2 The first threads add
#
# In V1 a warp's lanes *diverge*: in each of the first steps every warp runs the addition for a few of its lanes. The
# sums stay where they are, but let thread t do the t-th of them: the sum that lies at 2·s·t. Then the busy threads are
# the first ones, whole warps of them, and the other warps skip the step. A bound counts the steps in which lanes part.
#
# <details><summary>Hint 1</summary>Only the body of the loop changes: compute the index first.</details>
# <details><summary>Hint 2</summary>A thread adds if its index lies inside the block's numbers.</details>
# <details><summary>Hint 3</summary>With index 2·s·t, the other operand lies s further on.</details>

# %% cell="solution" id="reduce_v2"
# %%cuda
# // As reduce_v1, but the threads that add are the first ones of the block.
# __global__ void reduce_v2(const float *x, float *partial, int n) {
#     __shared__ float tile[256];
#     int t = threadIdx.x;
#     int i = blockIdx.x * blockDim.x + t;
#     tile[t] = i < n ? x[i] : 0.0f;
#     __syncthreads();
#     // ### BEGIN SOLUTION
#     for (int s = 1; s < blockDim.x; s *= 2) {
#         int left = 2 * s * t;
#         if (left < blockDim.x) tile[left] += tile[left + s];
#         __syncthreads();
#     }
#     // ### END SOLUTION
#     if (t == 0) partial[blockIdx.x] = tile[0];
# }

# %% cell="check" exercise="10_reduction/sum_v2"
lab.check("10_reduction/sum_v2")

# %%
lab.banks(lambda lane: 4 * (2 * 4 * lane), title="V2, s = 4: the words that the first warp reads")

# %% [markdown]
# ## V3 Sequential addresses
#
# One fault gone, another come: neighbouring lanes now read words that lie 2·s apart, so that several share a bank and
# wait for each other. Shared memory is passed over as often as in V1, though fewer warps ask. Turn the tree round:
# begin with the largest distance. Thread t adds element t + s to its own for s = 128, 64, …, 1, and only the first s
# threads do. Lanes side by side read words side by side.
#
# <details><summary>Hint 1</summary>s begins at half the block and halves until it has been 1.</details>
# <details><summary>Hint 2</summary>The condition is a comparison of t with s, and nothing is multiplied.</details>
# <details><summary>Hint 3</summary>The barrier is where it was: in each step, outside the if.</details>

# %% cell="solution" id="reduce_v3"
# %%cuda
# // As reduce_v2, but the lanes of a warp read and write words that lie side by side.
# __global__ void reduce_v3(const float *x, float *partial, int n) {
#     __shared__ float tile[256];
#     int t = threadIdx.x;
#     int i = blockIdx.x * blockDim.x + t;
#     tile[t] = i < n ? x[i] : 0.0f;
#     __syncthreads();
#     // ### BEGIN SOLUTION
#     for (int s = blockDim.x / 2; s > 0; s /= 2) {
#         if (t < s) tile[t] += tile[t + s];
#         __syncthreads();
#     }
#     // ### END SOLUTION
#     if (t == 0) partial[blockIdx.x] = tile[0];
# }

# %% cell="check" exercise="10_reduction/sum_v3"
lab.check("10_reduction/sum_v3")

# %% [markdown]
# ## V4 Add on the way in
#
# In V3 half of the threads load one number and never add. Let each thread load two, 256 apart so that both loads stay
# coalesced, and add them in a register before anything goes to shared memory. A block takes 512 elements: half as many
# blocks, half as much written to shared memory, half as many barriers, and x is still read once.
#
# <details><summary>Hint 1</summary>The block begins at element <code>blockIdx.x * 2 * blockDim.x</code>.</details>
# <details><summary>Hint 2</summary>Each of the two elements may lie past the end: guard both loads.</details>
# <details><summary>Hint 3</summary>Then one store to <code>tile[t]</code>, a barrier, and the tree of V3.</details>

# %% cell="solution" id="reduce_v4"
# %%cuda
# // partial[b] = x[512·b] + … + x[512·b + 511], as far as these exist; each thread brings in two of them.
# __global__ void reduce_v4(const float *x, float *partial, int n) {
#     __shared__ float tile[256];
#     int t = threadIdx.x;
#     // ### BEGIN SOLUTION
#     int i = blockIdx.x * 2 * blockDim.x + t;
#     float sum = i < n ? x[i] : 0.0f;
#     if (i + blockDim.x < n) sum += x[i + blockDim.x];
#     tile[t] = sum;
#     __syncthreads();
#     for (int s = blockDim.x / 2; s > 0; s /= 2) {
#         if (t < s) tile[t] += tile[t + s];
#         __syncthreads();
#     }
#     // ### END SOLUTION
#     if (t == 0) partial[blockIdx.x] = tile[0];
# }

# %% cell="check" exercise="10_reduction/sum_v4"
lab.check("10_reduction/sum_v4")

# %% [markdown]
# ## V5 Shuffle the last steps
#
# From s = 32 on a single warp adds, and still the whole block waits at every barrier. Lanes of a warp can hand each
# other registers: `__shfl_down_sync(0xffffffff, sum, s)` gives the `sum` of the lane s further on. The mask names the
# lanes that call, here all 32. No shared memory, no barrier; but old code that leaves out both, and trusts that lanes
# run in step, has been wrong since Volta (2017).
#
# *Cooperative groups* say the same with names: `auto warp = cg::tiled_partition<32>(cg::this_thread_block());` and
# `cg::reduce(warp, sum, cg::plus<float>())`. They compile more slowly. For floats the instructions are the same; for
# integers, from compute capability 8.0 on, `cg::reduce` is a single `redux.sync`.
#
# <details><summary>Hint 1</summary>Loading and the tree are those of V4, but the tree ends with the step
# s = 32.</details>
# <details><summary>Hint 2</summary>Then the first 32 elements of <code>tile</code> hold all there is: one for each lane
# of the first warp.</details>
# <details><summary>Hint 3</summary>Five shuffles, s = 16, 8, 4, 2, 1, inside one <code>if (t &lt; 32)</code> that a
# whole warp enters. Lane 0 then has the sum, and stores it.</details>

# %% cell="solution" id="reduce_v5"
# %%cuda
# // As reduce_v4, but the last 32 numbers are added in registers.
# __global__ void reduce_v5(const float *x, float *partial, int n) {
#     __shared__ float tile[256];
#     int t = threadIdx.x;
#     // ### BEGIN SOLUTION
#     int i = blockIdx.x * 2 * blockDim.x + t;
#     float sum = i < n ? x[i] : 0.0f;
#     if (i + blockDim.x < n) sum += x[i + blockDim.x];
#     tile[t] = sum;
#     __syncthreads();
#     for (int s = blockDim.x / 2; s >= 32; s /= 2) {
#         if (t < s) tile[t] += tile[t + s];
#         __syncthreads();
#     }
#     if (t < 32) {
#         sum = tile[t];
#         for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
#         if (t == 0) partial[blockIdx.x] = sum;
#     }
#     // ### END SOLUTION
# }

# %% cell="check" exercise="10_reduction/sum_v5"
lab.check("10_reduction/sum_v5")

# %% [markdown]
# ## V6 One launch
#
# Now let memory be the only limit. Launch no more blocks than the GPU holds at once, and let each thread walk through x
# in steps of the whole grid, its sum in a register. Read `float4`: 16 bytes a lane, 512 a warp with one request. Keep
# several loads on their way: `#pragma unroll 4` before the loop lets the compiler start four of them before the first
# addition. Then add within each warp by shuffles, put one number for each warp into shared memory, add these in the
# first warp, and let one thread add the block's sum to `out` with `atomicAdd`. The launcher has set `out` to 0.
#
# Blocks come in any order, so the last bits of a sum of floats may differ from run to run.
#
# <details><summary>Hint 1</summary><code>n / 4</code> elements of float4, walked from <code>i</code> in steps of
# <code>stride</code>. Up to three numbers are left over: the first <code>n % 4</code> threads of the grid take one
# each.</details>
# <details><summary>Hint 2</summary>Every lane takes part in the shuffles, also one that had nothing to load: its sum is
# 0. Lane 0 of each warp writes <code>warp_sums</code>; one barrier; the first warp reads.</details>
# <details><summary>Hint 3</summary>A block has <code>blockDim.x / 32</code> warps: the other lanes of the first warp
# start the second round of shuffles with 0.</details>

# %% cell="solution" id="reduce_v6"
# %%cuda
# // out[0] += x[0] + … + x[n - 1]. x begins at a multiple of 16 bytes; a block has a multiple of 32 threads.
# __global__ void reduce_v6(const float *x, float *out, int n) {
#     __shared__ float warp_sums[32];
#     const float4 *x4 = reinterpret_cast<const float4 *>(x);
#     int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#     int i = blockIdx.x * blockDim.x + threadIdx.x;
#     int stride = gridDim.x * blockDim.x;
#     // ### BEGIN SOLUTION
#     float sum = i < n % 4 ? x[n - 1 - i] : 0.0f;
#     #pragma unroll 4
#     for (int k = i; k < n / 4; k += stride) {
#         float4 v = x4[k];
#         sum += (v.x + v.y) + (v.z + v.w);
#     }
#
#     for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
#     if (lane == 0) warp_sums[warp] = sum;
#     __syncthreads();
#     if (warp == 0) {
#         sum = lane < blockDim.x / 32 ? warp_sums[lane] : 0.0f;
#         for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
#         if (lane == 0) atomicAdd(out, sum);
#     }
#     // ### END SOLUTION
# }


# %% cell="given" id="sum_v6"
gpu = lab.device.current()
RESIDENT = gpu.sms * (32 * gpu.limits.max_warps // BLOCK) if gpu else 64  # blocks that the GPU holds at the same time


def sum_v6(x, out):
    x = lab.aligned(x)  # float4 needs such an address; new tensors have one, slices such as y[1:] need not
    out.zero_()
    n = x.numel()
    blocks = min(triton.cdiv(n, 16 * BLOCK), RESIDENT)
    reduce_v6[blocks, BLOCK](x, out, n)


# %% cell="check" exercise="10_reduction/sum_v6"
lab.check("10_reduction/sum_v6")

# %%
x = (torch.arange(2**15) % 17 - 8.0).to("cuda" if lab.device.has_gpu() else "cpu")
counts = ["launches", "divergent_branches", "shared_load_wavefronts", "barriers", "global_load_requests", "atomics"]
print("  ", *counts)
for k, sum_version in enumerate((sum_v1, sum_v2, sum_v3, sum_v4, sum_v5, sum_v6), 1):
    with lab.record() as r:
        sum_version(x, torch.empty(1, device=x.device))
    print(f"V{k}", *(f"{r.totals().get(c, 0):{len(c)}}" for c in counts))
print("\nThe last launch of V1, a single block, line by line:")
lab.annotate(reduce_v1)

# %%
# Course material says that each step of the ladder doubles the speed. Which of yours do, on your GPU, and why not all?
for k in range(1, 7) if lab.device.has_gpu() else [6]:
    if timed := lab.benchmark(f"10_reduction/sum_v{k}"):
        print(timed)

# %% [markdown]
# ## The same in Triton
#
# A program adds the values of a block with `tl.sum(values)`, or along an axis with `tl.sum(values, axis=0)`: tree,
# shuffles and barriers are the compiler's work. Two things stay yours: lanes past the end must bring 0 (`other=0.0`),
# and sums of fp16 want fp32 (`.to(tl.float32)` after the load).
#
# `row_sum`: one program takes one row, in a block of `BLOCK_N` columns, the power of two at or above N.
#
# `total_sum`: each program walks through x in steps of all programs, keeps `BLOCK` running sums, adds them up at the
# end and hands the result to `tl.atomic_add(out_ptr, …)`. The launcher has set `out` to 0.
#
# <details><summary>Hint 1</summary>A row begins at <code>x_ptr + pid * stride_m</code>; its mask compares with
# N.</details>
# <details><summary>Hint 2</summary><code>for start in range(pid * BLOCK, n, tl.num_programs(0) * BLOCK)</code> walks
# through a vector.</details>
# <details><summary>Hint 3</summary>The running sums begin as <code>tl.zeros((BLOCK,), tl.float32)</code>: one
# <code>tl.sum</code> after the loop is cheaper than one in each turn.</details>


# %% cell="solution" id="triton_sums"
@triton.jit
def row_sum_kernel(x_ptr, out_ptr, stride_m, N, BLOCK_N: tl.constexpr):
    """Sum each row of a matrix.

    out[m] = x[m, 0] + … + x[m, N - 1]

    x_ptr    (M, N)  input; rows lie stride_m elements apart
    out_ptr  (M,)    output, fp32
    One program sums one row, m = pid.
    """
    ### BEGIN SOLUTION
    pid = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + pid * stride_m + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
    tl.store(out_ptr + pid, tl.sum(x))
    ### END SOLUTION


@triton.jit
def total_sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Add a vector's sum to out.

    out[0] += x[0] + … + x[n - 1]

    x_ptr    (n,)  input
    out_ptr  (1,)  output
    One program sums every P-th block of BLOCK elements, for P programs.
    """
    ### BEGIN SOLUTION
    pid = tl.program_id(0)
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(pid * BLOCK, n, tl.num_programs(0) * BLOCK):
        offs = start + tl.arange(0, BLOCK)
        sums += tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(sums))
    ### END SOLUTION


# %% cell="given" id="triton_launchers"
def row_sum(x, out):
    M, N = x.shape
    row_sum_kernel[(M,)](x, out, x.stride(0), N, BLOCK_N=triton.next_power_of_2(N))


def total_sum(x, out, BLOCK=4096):
    n = x.numel()
    out.zero_()
    programs = min(triton.cdiv(n, 4 * BLOCK), RESIDENT)
    total_sum_kernel[(programs,)](x, out, n, BLOCK=BLOCK, num_warps=8)


lab.tiny("10_reduction/row_sum")

# %% cell="check" exercise="10_reduction/row_sum"
lab.check("10_reduction/row_sum")

# %% cell="check" exercise="10_reduction/total_sum"
lab.check("10_reduction/total_sum")

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** V1's busy warps over its eight steps are 8, 8, 8, 8, 8, 4, 2 and 1, as you predicted. What are V3's, and
# why does V3 still not run as many times faster as that?
#
# ### BEGIN SOLUTION
# 4, 2, 1, 1, 1, 1, 1, 1: 12 in place of 47. But additions are only a part of the time: every block must load its
# elements from memory, and all its warps pass nine barriers either way. On a GPU with enough blocks in flight the load
# from memory hides much of the rest.
# ### END SOLUTION

# %% [markdown]
# **Next.** `11_softmax` needs two reductions for each row. Try: a maximum and its index in one pass; a block for each
# of 1000 rows; a sum with the same bits in every run, in one launch (the last block to finish adds the partial sums:
# `__threadfence()` and a counter).
#
# **In practice** you call `torch.sum`, or CUB's `DeviceReduce` and `BlockReduce`; you write a reduction as the tail of
# a kernel that has the values in registers already. All blocks can also wait for each other in one launch, with
# `cg::this_grid().sync()` and a cooperative launch.
#
# **Reading.** [Optimizing Parallel Reduction in CUDA](https://developer.download.nvidia.com/assets/cuda/files/reduction.pdf)
# by Mark Harris: this ladder, on a GPU of 2007. [Using CUDA warp-level
# primitives](https://developer.nvidia.com/blog/using-cuda-warp-level-primitives/): masks, and why lanes need them.

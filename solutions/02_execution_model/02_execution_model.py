# %% [markdown]
# # Map threads to data and to the hardware
#
# **You will** compute how a [grid](../glossary.md#grid) fills a GPU. Then you write three CUDA C++
# [kernels](../glossary.md#kernel): the first computes one index, the second two indices, and the third computes some
# elements by one formula and the rest by another.
#
# **You will learn to**
# - define grid, [block](../glossary.md#block), [warp](../glossary.md#warp) and [thread](../glossary.md#thread), and
#   compute the index of a thread in one and two dimensions;
# - count the [waves](../glossary.md#wave) of a grid, and compute what share of the GPU these waves use;
# - explain why blocks have no order, and how a GPU hides memory [latency](../glossary.md#latency);
# - detect [divergence](../glossary.md#divergence) by the number of idle lanes, and write a branch that does not
#   diverge.
#
# **You need** `00_start`. About 70 minutes. You need a GPU only to measure times.
#
# ## 1 From grid to hardware
#
# | term | what it is | built-in variable | runs on |
# |---|---|---|---|
# | thread | one execution of the kernel, with its own registers | `threadIdx`: place in block | an SM, as a lane |
# | warp | 32 threads that execute the same instruction together | – | a scheduler of an SM |
# | block | up to {claim: block_threads} that can communicate | `blockIdx`: place in grid; `blockDim`: size | one SM |
# | grid | all blocks of a launch | `gridDim`: size | the GPU |
#
# A GPU consists of [SMs](../glossary.md#sm) (streaming multiprocessors). A [lane](../glossary.md#lane) is a thread's
# place in its warp (0 to 31). A [scheduler](../glossary.md#scheduler) of an SM issues (starts) the instructions of its
# warps. A Triton *program* is a block whose threads Triton manages. Each built-in variable has components `.x`, `.y`
# and `.z`. The threads of a block are numbered row by row, along x first. Every 32 consecutive threads form a warp. So
# if `blockDim.x` is a multiple of 32, all threads of a warp are in one row.
#
# An SM has `blocks_per_sm` [block slots](../glossary.md#block-slot): it can hold that many blocks at a time. The more
# [registers](../glossary.md#register), [shared memory](../glossary.md#shared-memory) or threads a block needs, the
# fewer block slots an SM has. When a block ends, and not before, the next waiting block takes its slot. If all blocks
# take equally long, they run in *waves*: all slots get new blocks at the same time. For example, run 160 blocks on the
# {claim: b200_sms} of a [B200](../glossary.md#gpu-generation), with one block slot per SM. The second wave has only 12
# blocks, so 148 − 12 = 136 SMs are idle. This loss is called *wave quantization*, or the [tail
# effect](../glossary.md#tail-effect).
#
# **Predict.** Write `waves`: how many waves does a grid of `blocks` blocks need? In each wave, every block slot of the
# GPU can take one block. Write `tail_efficiency`: what share of these slots, in all waves, do the blocks use?

# %% cell="setup"


# %% cell="solution" id="waves"
def waves(blocks, sms, blocks_per_sm):
    """Return the number of waves of a grid. Each SM holds blocks_per_sm blocks at a time."""
    ### BEGIN SOLUTION
    places = sms * blocks_per_sm
    return (blocks + places - 1) // places
    ### END SOLUTION


def tail_efficiency(blocks, sms, blocks_per_sm):
    """Return the number of blocks divided by the block slots of all waves: 1.0 if the last wave is full."""
    ### BEGIN SOLUTION
    return blocks / (waves(blocks, sms, blocks_per_sm) * sms * blocks_per_sm)
    ### END SOLUTION


# %% cell="check" exercise="02_execution_model/waves"
lab.check("02_execution_model/waves")

# %% cell="check" exercise="02_execution_model/tail_efficiency"
lab.check("02_execution_model/tail_efficiency")

# %%
for blocks in (160, 296, 1000, 1480):
    print(f"{blocks} blocks on 148 SMs: {tail_efficiency(blocks, 148, 1):.0%} of the slots used")
lab.widgets.waves(blocks=160, gpu="B200")

# %% [markdown]
# The tail effect is smaller for larger grids. On the B200, 160 blocks use {claim: used_slots} of the 2 · 148 slots of
# their two waves. A grid of ten or more waves uses more than 90 %, because only its last wave can have empty slots. So
# launch many blocks, or exactly as many as fit on the GPU. In the second case, each block processes several pieces of
# the data (`07_elementwise_cuda`).
#
# **No order.** Blocks start when a slot is free and end in any order. A kernel in which block 5 waits for block 9 can
# [deadlock](../glossary.md#deadlock): block 9 may need the slot that block 5 keeps while it waits. Because blocks are
# independent, the same kernel runs on GPUs with 20 and with 148 SMs.
#
# **Latency hiding.** A load from memory takes several hundred [cycles](../glossary.md#cycle). Meanwhile, other warps
# can run. An SM of an A100, H100, H200 or B200 holds up to {claim: sm_warps}. (An SM of a T4 holds {claim: t4_warps}
# warps, and one of a GPU in the GeForce RTX 30, 40 or 50 series holds {claim: rtx_warps}.) Each warp keeps its own
# registers, so a scheduler switches to another warp without delay. In every cycle, each of the SM's four schedulers
# issues an instruction of one of its *ready* warps (warps that do not wait). With enough warps, at least one warp is
# always ready.
#
# ## 2 One index
#
# Your first kernel fades a sound in, from silence to full volume: `out[i] = x[i] · i / n`. One thread computes one
# sample (one element). The cell below runs a similar kernel, `who_kernel`, and prints the array that `who_kernel`
# writes. Its grid has exactly one thread per element. Your grid can have more threads, so your kernel needs a [boundary
# guard](../glossary.md#boundary-guard): a test that the index is less than `n`.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x` | (n,) | input samples |
# | `out` | (n,) | output samples |
# | `n` | scalar | number of samples, usually not a multiple of the block size |
#
# <details><summary>Hint 1</summary>Compute the thread's index, test whether the element at this index exists, and if so
# compute the element.</details>
# <details><summary>Hint 2</summary>The index is the same as in <code>who_kernel</code>. Threads whose index is
# <code>n</code> or more also execute your code, but must not load or store.</details>
# <details><summary>Hint 3</summary>In C++, <code>3 / 4</code> is 0. Multiply by a float first, or convert:
# <code>(float)i / n</code>.</details>

# %% cell="given" id="who"
import torch

who_kernel = lab.cuda.compile(  # compiles a kernel from CUDA C++ text
    """
__global__ void who_kernel(float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 100 * blockIdx.x + threadIdx.x;  // each thread writes its block and thread index
}
""",
    "who_kernel",
)
written = torch.empty(12, device="cuda" if lab.device.has_gpu() else "cpu")
who_kernel[3, 4](written)  # 3 blocks of 4 threads
print(written.int().tolist())


# The launchers of your kernels in parts 2 and 3.
def fade(x, out):
    n = x.numel()
    fade_kernel[(n + 255) // 256, 256](x, out, n)


def mirror(x, out):
    M, N = x.shape
    grid = ((N + 31) // 32, (M + 7) // 8)  # blocks along x (columns), blocks along y (rows)
    mirror_kernel[grid, (32, 8)](x, out, M, N)


# %% cell="solution" id="fade_kernel"
# %%cuda
# // out[i] = x[i] * i / n for i < n. One thread computes one element.
# __global__ void fade_kernel(const float* x, float* out, int n) {
#     // ### BEGIN SOLUTION
#     int i = blockIdx.x * blockDim.x + threadIdx.x;
#     if (i < n) {
#         out[i] = x[i] * ((float)i / n);
#     }
#     // ### END SOLUTION
# }


# %% cell="check" exercise="02_execution_model/fade"
lab.tiny("02_execution_model/fade")
lab.check("02_execution_model/fade")

# %% [markdown]
# This table is for parts 2 to 4:
#
# | the check reports | common cause |
# |---|---|
# | `tail-unmasked` | the guard is missing or uses `<=`; (part 3) only one of two indices is guarded |
# | `first-block-only`, `tail-not-written` | the index is `threadIdx` alone, so every block computes the same elements |
# | `first-block-only` (part 3) | `.x` and `.y` are swapped: compute the column from `.x`, and the row from `.y` |
# | [`race`](../glossary.md#race) | (part 4) the threads of a left and of a right sample write the same element |
# | all test cases pass, but points are missing | a count is outside its limit: read the lines below `Counted` |
#
# ## 3 Two indices
#
# Mirror an image of M rows and N columns: pixel (row, column) of `x` goes to (row, N − 1 − column) of `out`. The image
# is stored row by row, so element (row, column) is at `row · N + column`. Blocks are 32 threads wide and 8 high.
#
# <details><summary>Hint 1</summary>Use the index formula of part 2 twice: with <code>.x</code> for the column, and with
# <code>.y</code> for the row.</details>
# <details><summary>Hint 2</summary>The grid is rounded up to whole blocks in both directions, so guard both the row and
# the column.</details>
# <details><summary>Hint 3</summary>Without a guard, the thread with column <code>N</code> writes <code>out[row * N -
# 1]</code>. In row 0 this element is before the array; in any other row it is the last pixel of the row
# above.</details>

# %% cell="solution" id="mirror_kernel"
# %%cuda
# // out[row][N - 1 - column] = x[row][column] for row < M and column < N. One thread moves one pixel.
# __global__ void mirror_kernel(const float* x, float* out, int M, int N) {
#     // ### BEGIN SOLUTION
#     int column = blockIdx.x * blockDim.x + threadIdx.x;
#     int row = blockIdx.y * blockDim.y + threadIdx.y;
#     if (row < M && column < N) {
#         out[row * N + N - 1 - column] = x[row * N + column];
#     }
#     // ### END SOLUTION
# }


# %% cell="check" exercise="02_execution_model/mirror"
lab.tiny("02_execution_model/mirror")
lab.check("02_execution_model/mirror")

# %% [markdown]
# ## 4 Divergence: let all threads of a warp take the same side
#
# In a stereo signal, even samples are left and odd samples are right. Your kernel applies `left_clip` to each left
# sample and `right_clip` to each right sample. The obvious kernel branches on `i % 2`, so half of a warp's lanes take
# each side, and the warp executes both sides. While one side runs, the lanes of the other side wait. This is
# *divergence*. The cell below runs this kernel and prints a table: beside each line of the source, the column `lanes`
# has the share of [active lanes](../glossary.md#active-lanes). Below the table, it shows an interactive picture of
# divergence. (`__device__` marks a function that kernels call.) Choose other conditions in the picture's menu: which of
# them cause no divergence?
#
# **Write** `by_warp_kernel`. It gives the same result, but each of its warps computes only one channel (left or right).
# A block of 256 threads computes 256 consecutive samples. Its first four warps compute the left samples, the other four
# the right samples.
#
# You get 2 points for a correct result, 1 point if at least 90 % of the lanes are active, and 1 point if at most 0.1 %
# of the executed branches are divergent. The check also counts square roots: a kernel that computes both functions for
# each sample gets neither of the last two points.
#
# <details><summary>Hint 1</summary>Compute the channel from the thread's position in the block. Then compute the index
# <code>i</code> of the sample from this position and the channel. (If you change only the condition, some left samples
# get <code>right_clip</code>.)</details>
# <details><summary>Hint 2</summary>Threads 0 to 127 compute samples 0, 2, 4, … of the block, threads 128 to 255 compute
# samples 1, 3, 5, …</details>
# <details><summary>Hint 3</summary>Let <code>half</code> be <code>blockDim.x / 2</code>. The channel is
# <code>threadIdx.x / half</code>. The block's samples form pairs (left, right). The thread's pair has the index
# <code>threadIdx.x % half</code>.</details>

# %% cell="given" id="stereo"
by_thread_kernel = lab.cuda.compile(
    """
__device__ float left_clip(float v) {
    for (int k = 0; k < 16; k++) v = v / (1.0f + fabsf(v));
    return v;
}
__device__ float right_clip(float v) {
    for (int k = 0; k < 16; k++) v = v / sqrtf(1.0f + v * v);
    return v;
}
__global__ void by_thread_kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    if (i % 2 == 0) v = left_clip(v);
    else v = right_clip(v);
    out[i] = v;
}
""",
    "by_thread_kernel",
)


def stereo_by_thread(x, out):
    by_thread_kernel[(x.numel() + 255) // 256, 256](x, out, x.numel())


def stereo(x, out):  # launches your kernel
    by_warp_kernel[(x.numel() + 255) // 256, 256](x, out, x.numel())


def active_share(launcher):
    samples = torch.linspace(-1, 1, 4096, device=written.device)
    with lab.record() as counts:  # counts what each line does
        launcher(samples, torch.empty_like(samples))
    totals = counts.totals()
    print(f"{launcher.__name__}: {totals['lanes'] / totals['lane_slots']:.0%} of the lanes active", end=", ")
    print(f"{totals.get('divergent_branches', 0)} of {totals['branches']} branches diverge")


active_share(stereo_by_thread)
lab.annotate(by_thread_kernel)
lab.widgets.divergence("thread % 2 == 0")

# %% cell="solution" id="by_warp_kernel"
# %%cuda
# __device__ float left_clip(float v) {
#     for (int k = 0; k < 16; k++) v = v / (1.0f + fabsf(v));
#     return v;
# }
# __device__ float right_clip(float v) {
#     for (int k = 0; k < 16; k++) v = v / sqrtf(1.0f + v * v);
#     return v;
# }
#
# // out[i] = left_clip(x[i]) for even i < n, right_clip(x[i]) for odd i < n. A block computes blockDim.x samples.
# __global__ void by_warp_kernel(const float* x, float* out, int n) {
#     // ### BEGIN SOLUTION
#     int half = blockDim.x / 2;  // whole warps
#     int channel = threadIdx.x / half;
#     int i = blockIdx.x * blockDim.x + 2 * (threadIdx.x % half) + channel;
#     if (i < n) {
#         out[i] = channel == 0 ? left_clip(x[i]) : right_clip(x[i]);
#     }
#     // ### END SOLUTION
# }


# %% cell="check" exercise="02_execution_model/diverge"
lab.check("02_execution_model/diverge")

# %%
lab.claims("02_execution_model")  # a two-minute quiz: predict each number, then compare
active_share(stereo)
lab.annotate(by_warp_kernel)
for version in (stereo_by_thread, stereo):
    print(lab.benchmark("02_execution_model/diverge", version) or "")

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Compare the columns `lanes` and `per req` ([sectors](../glossary.md#sector) per request) of
# `by_thread_kernel` and `by_warp_kernel`. Which is better in the second kernel, and which is worse? Why is the second
# kernel still faster, and when would it not be faster?
#
# ### BEGIN SOLUTION
# All lanes are active in the clip functions: a warp executes one of the functions, not both. But neighboring lanes now
# read every second sample. A warp's load touches 8 sectors instead of 4, and the warp uses only half of each. Soon
# after, another warp of the same block reads the other half, mostly from the cache. With 16 divisions per sample,
# arithmetic takes most of the time. With cheaper functions, memory accesses would take most of the time, and the first
# kernel would be as fast or faster.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** Let each thread process one left and one right sample, and read both with one load, as a `float2`
# (two floats). This kernel needs no branch to choose a side, and its accesses are
# [coalesced](../glossary.md#coalesced-access): a warp loads only bytes that it uses. Is it faster than yours?
#
# **In practice** the compiler replaces a short branch by code in which every lane computes both sides and selects one
# result, so the warp does not diverge. Ray tracers sort their rays so that all lanes of a warp take the same side of a
# branch.
#
# **Reading.** [CUDA Programming Guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/), "Thread Hierarchy" and
# "SIMT Architecture": what CUDA guarantees about blocks and warps.

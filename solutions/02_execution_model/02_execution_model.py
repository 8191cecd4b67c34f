# %% [markdown]
# # Place threads on data and on the machine
#
# **You will** work out how a grid fills a GPU, and write three CUDA C++ kernels: one index, two indices, and a branch.
#
# **You will learn to**
# - say what grid, block, warp and thread are, and compute an index with a guard in one and two dimensions;
# - count waves of blocks, and the share of the GPU that the last wave leaves idle;
# - see why blocks have no order, and how a GPU hides the time that memory takes;
# - find divergence in counts, and put a branch where it costs nothing.
#
# **You need** `00_start`. About 70 minutes. Works without a GPU; only times need one.

# %% cell="setup"

# %% [markdown]
# ## 1 From grid to machine
#
# | word | what it is | built-in | runs on |
# |---|---|---|---|
# | thread | one run of the kernel's text, with its own registers | `threadIdx` | a lane of a warp |
# | warp | 32 threads that share one instruction at a time | – | a scheduler of an SM |
# | block | up to 1024 threads that may talk to each other | `blockIdx`, `blockDim` | one SM, from start to end |
# | grid | all blocks of a launch | `gridDim` | the GPU |
#
# A Triton *program* is a block whose threads Triton manages. Each built-in has `.x`, `.y`, `.z`; x runs fastest, and 32
# threads in a row along x make a warp.
#
# An SM takes as many blocks as its registers, shared memory and thread slots allow, say `blocks_per_sm`. When a block
# ends, the next one that waits takes its place. If blocks take equally long, they come in *waves*: with 148 SMs (a
# B200), one block on each, and 160 blocks, the first wave has 148 blocks and the second 12. It takes as long as the
# first, on 12 SMs, and 136 of them idle. This is *wave quantisation*.
#
# **Predict.** How many waves does a grid need, and what share of the places in all its waves is used?


# %% cell="solution" id="waves"
def waves(blocks, sms, blocks_per_sm):
    """Waves of a grid, where each SM holds blocks_per_sm blocks at a time."""
    ### BEGIN SOLUTION
    places = sms * blocks_per_sm
    return (blocks + places - 1) // places
    ### END SOLUTION


def tail_efficiency(blocks, sms, blocks_per_sm):
    """Share of the places in all waves that have a block: 1.0 when the last wave is full."""
    ### BEGIN SOLUTION
    return blocks / (waves(blocks, sms, blocks_per_sm) * sms * blocks_per_sm)
    ### END SOLUTION


# %% cell="check" exercise="02_execution_model/waves"
lab.check("02_execution_model/waves")

# %% cell="check" exercise="02_execution_model/tail_efficiency"
lab.check("02_execution_model/tail_efficiency")

# %%
from labutils import plots


def saw_teeth():
    picture = plots.figure(8, 2.6)
    axis = picture.subplots()
    for per_sm, style in ((1, "-"), (4, "--")):
        counts = range(20, 1500, 4)
        used = [tail_efficiency(n, 148, per_sm) for n in counts]
        axis.plot(counts, used, style, label=f"{per_sm} per SM", color=plots.PALETTE[per_sm // 4])
    axis.plot(160, tail_efficiency(160, 148, 1), "o", color=plots.PALETTE[5], label="160 blocks")
    axis.set(xlabel="blocks", ylabel="share in use", title="148 SMs: the last wave hurts small grids", ylim=(0, 1.05))
    axis.legend()
    picture.alt = "Saw teeth: the share is 1 at each multiple of a wave and falls just beyond it, to half at first."
    return picture


saw_teeth()

# %% [markdown]
# The teeth shrink as the grid grows: 160 blocks use 54 % of the places, some ten waves always more than 90 %. So either
# launch many blocks, or exactly as many as fit and let each do several pieces (`07_elementwise_cuda`).
#
# **No order.** Blocks start when a place is free; which ends first depends on caches, clocks and other work. A kernel
# whose block 5 waits for block 9 may hang: block 9 may not get a place before block 5 ends. That is what lets the same
# program run on 20 SMs and on 148.
#
# **Hiding latency.** A value from memory arrives after several hundred cycles. An SM holds up to 64 warps (a T4 32, RTX
# 30 to 50 48), each with its registers in place, so switching costs nothing: in every cycle each of the four schedulers
# issues from any warp that is ready. With enough warps there is always one; with a single one the SM waits most of the
# time.
#
# ## 2 One index
#
# Your first kernel fades a signal in: `out[i] = x[i] · i / n`, from silence to full volume. One thread computes one
# sample. The cell below runs a neighbour of it, which fits exactly and so has no guard; look at what it writes.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x`, `out` | (n,) | samples before and after |
# | `n` | number | samples; the last block is rarely full |
#
# <details><summary>Hint 1</summary>Which element is mine, does it exist, and if so compute it.</details>
# <details><summary>Hint 2</summary>The index is that of <code>who_kernel</code>. All threads of all blocks run your
# text, also those beyond n.</details>
# <details><summary>Hint 3</summary>In C++ <code>3 / 4</code> is 0. Multiply by a float first, or convert:
# <code>(float)i / n</code>.</details>

# %% cell="given" id="who"
import torch

who_kernel = lab.cuda.compile(  # the same as a %%cuda cell
    """
__global__ void who_kernel(float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 100 * blockIdx.x + threadIdx.x;  // whoever is in charge of element i signs it
}
""",
    "who_kernel",
)
signed = torch.empty(12, device="cuda" if lab.device.has_gpu() else "cpu")
who_kernel[3, 4](signed)  # 3 blocks of 4 threads
print(signed.int().tolist())

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


# %% cell="given" id="fade"
def fade(x, out):
    n = x.numel()
    fade_kernel[(n + 255) // 256, 256](x, out, n)


lab.tiny("02_execution_model/fade")

# %% cell="check" exercise="02_execution_model/fade"
lab.check("02_execution_model/fade")

# %% [markdown]
# | what a check says | a common cause |
# |---|---|
# | `tail-unmasked`, `out-of-bounds` | no guard, or `<=` for `<`; in two dimensions, only one of the two |
# | `first-block-only`, `tail-not-written` | `threadIdx` alone: every block does the same elements |
# | the same, in two dimensions | x and y swapped: x is the column, y the row |
# | `race` | two threads have the same element: work out the index of threads 0, 1 and 128 |
# | points missing, values right | read the counts below the cases |
#
# ## 3 Two indices
#
# Mirror an image of M rows and N columns: pixel (row, column) of `x` goes to (row, N − 1 − column) of `out`. Row after
# row lies in memory, so element (row, column) is at `row · N + column`. Blocks are 32 threads wide and 8 high.
#
# <details><summary>Hint 1</summary>The same formula twice: x gives the column, y gives the row.</details>
# <details><summary>Hint 2</summary>The grid covers the image rounded up in both directions: guard both.</details>
# <details><summary>Hint 3</summary>A column beyond N, unguarded, is a pixel of the next row: wrong, though inside the
# array.</details>

# %% cell="solution" id="mirror_kernel"
# %%cuda
# // out[row][N - 1 - column] = x[row][column]. One thread moves one pixel.
# __global__ void mirror_kernel(const float* x, float* out, int M, int N) {
#     // ### BEGIN SOLUTION
#     int column = blockIdx.x * blockDim.x + threadIdx.x;
#     int row = blockIdx.y * blockDim.y + threadIdx.y;
#     if (row < M && column < N) {
#         out[row * N + N - 1 - column] = x[row * N + column];
#     }
#     // ### END SOLUTION
# }


# %% cell="given" id="mirror"
def mirror(x, out):
    M, N = x.shape
    grid = ((N + 31) // 32, (M + 7) // 8)  # (x, y): columns first
    mirror_kernel[grid, (32, 8)](x, out, M, N)


lab.tiny("02_execution_model/mirror")

# %% cell="check" exercise="02_execution_model/mirror"
lab.check("02_execution_model/mirror")

# %% [markdown]
# ## 4 A branch, by threads and by warps
#
# A stereo signal holds left and right samples in turn. Each channel goes through its own chain of 16 soft clippers. The
# obvious kernel asks `i % 2`, and so each warp has to do both: the lanes of one side wait while the other side works.
# That is *divergence*. `lanes` is the share of lanes that are active in a line:

# %% cell="given" id="stereo"
CLIPPERS = """
__device__ float left_clip(float v) {
    for (int k = 0; k < 16; k++) v = v / (1.0f + fabsf(v));
    return v;
}
__device__ float right_clip(float v) {
    for (int k = 0; k < 16; k++) v = v / sqrtf(1.0f + v * v);
    return v;
}
"""
by_thread_kernel = lab.cuda.compile(
    CLIPPERS
    + """
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


def stereo(x, out):  # yours, below
    by_warp_kernel[(x.numel() + 255) // 256, 256](x, out, x.numel())


def active_share(launcher):
    samples = torch.linspace(-1, 1, 4096, device=signed.device)
    with lab.record() as counts:
        launcher(samples, torch.empty_like(samples))
    totals = counts.totals()
    print(f"{launcher.__name__}: {totals['lanes'] / totals['lane_slots']:.0%} of the lanes active", end=", ")
    print(f"{totals.get('divergent_branches', 0)} of {totals['branches']} branches diverge")


active_share(stereo_by_thread)
lab.annotate(by_thread_kernel)

# %% [markdown]
# Write the same function so that each warp has one channel only. A block of 256 threads still does 256 samples that lie
# together, but 128 threads, four whole warps, take the left ones, and the other four warps the right ones.
#
# Points: 2 for a right result, 1 for at least 90 % active lanes, 1 for no divergent branches to speak of.
#
# <details><summary>Hint 1</summary>Choose the channel from the thread's place in the block; then find the sample that
# belongs to this thread and this channel. Do not keep <code>i</code> and change only the condition.</details>
# <details><summary>Hint 2</summary>Threads 0 to 127 take samples 0, 2, 4, … of the block, threads 128 to 255 take 1, 3,
# 5, …</details>
# <details><summary>Hint 3</summary>With <code>half = blockDim.x / 2</code>: the channel is
# <code>threadIdx.x / half</code>, the pair is <code>threadIdx.x % half</code>.</details>

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
# // out[i] = left_clip(x[i]) for even i < n, right_clip(x[i]) for odd i < n. A block does blockDim.x samples.
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
active_share(stereo)
lab.annotate(by_warp_kernel)
for version in (stereo_by_thread, stereo):
    print(lab.benchmark("02_execution_model/diverge", version) or "")

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Compare the two annotated texts. What became better, what became worse, and why does the second still win
# here? When would it not?
#
# ### BEGIN SOLUTION
# Lanes in the clippers are all active, so a warp runs through one chain, not two. But neighbouring lanes now read every
# second sample: 8 sectors for each request in place of 4, half of each unused by this warp. Another warp of the same
# block uses the other half soon after, mostly from the cache. With 16 divisions for each sample arithmetic
# dominates; with a cheap branch, memory would, and the first version would be as good or better.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** Let each thread do a pair, read as one `float2`: there is no branch left at all, and access is
# perfect again. Is it faster than yours? Then `03_occupancy`: what decides `blocks_per_sm`.
#
# **In practice** short branches do not diverge: the compiler runs both sides and picks. Sorting work by kind, so that a
# warp does one kind, is how ray tracers and sparse kernels keep their lanes busy.
#
# **Reading.** [CUDA Programming Guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/), "Thread Hierarchy" and
# "SIMT Architecture": what is promised about blocks and warps.

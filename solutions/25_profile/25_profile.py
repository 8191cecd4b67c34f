# %% [markdown]
# # Read a profile: timelines, machine code, counters
#
# **You will** solve five exercises:
#
# 1. Find the gaps in a timeline, and the cause of each gap.
# 2. Find the bottleneck of a kernel from its counters.
# 3. Read a listing of machine code.
# 4. Write a kernel whose machine code loads 16 bytes at a time.
# 5. Fix three faults of a kernel. Each fault shows in one [metric](../glossary.md#metric).
#
# **You will learn to**
#
# - find out whether the GPU waited for a launch, a copy or a [synchronization](../glossary.md#synchronize);
# - read in [SASS](../glossary.md#sass) which instructions the compiler generated from your code.
#
# **You need** `08_coalescing`, `09_shared_memory` and `04_benchmarking`. About 90 minutes. You need a GPU only to
# measure times.
#
# ## 1 Gaps in a timeline
#
# A benchmark does not show what happens *between* kernels, but a [timeline](../glossary.md#timeline) does.
# [Nsight Systems](../glossary.md#nsight-systems) or PyTorch's [profiler](../glossary.md#profiler) records when each
# kernel, each copy and each call of the host begins and ends.
#
# A `timeline` is a list of events `(begin, end, engine, name, correlation)`; times are in µs. The engine is `"kernel"`,
# `"copy"` or `"host"`. A host event is a call that queues work, such as `cudaLaunchKernel`, or a call that waits, such
# as `cudaStreamSynchronize`. A kernel or a copy has the same [correlation](../glossary.md#correlation) as the call that
# queued it.
#
# ```
# host     |launch 1|  |launch 2|      |launch 3|
# copy                                      |=======|
# kernel             |1111|       |222|                    |33|
#                         └─ gap ─┘   └─────── gap ────────┘
# ```
#
# A [gap](../glossary.md#gap) is a time between two kernels in which no kernel runs. Kernels in different
# [streams](../glossary.md#stream) can overlap, so a gap begins when *all* kernels before it have ended. `gaps` returns
# a dict with the waiting time of the GPU in µs, by cause:
#
# - `"copy"`: the part of the gap in which a copy runs. Count the rest of the gap under the first of the following
#   causes that applies.
# - `"sync"`: a call whose name contains `Synchronize` ends inside the gap. The host waited for a result, so it could
#   not launch the next kernel in time.
# - `"launch"`: the call that queues the next kernel ends only after the gap has begun. The host was too slow.
# - `"start"`: none of the above. The kernel was queued in time, and the GPU needs a moment to start it.
#
# **Predict.** A step copies its input to the GPU, launches 12 small kernels, and reads the loss with `.item()`. Which
# cause do you expect to have the longest waiting time?
#
# <details><summary>Hint 1</summary>Go through the kernels in the order in which they begin. Keep the latest end of all
# kernels so far.</details>
# <details><summary>Hint 2</summary><code>copying(timeline, begin, end)</code> is given. The rest of the gap is
# <code>end - begin</code> minus its result.</details>
# <details><summary>Hint 3</summary>A synchronization counts if it ends after the gap begins and before the gap
# ends. For a late launch, look for the host event with the correlation of the kernel that ends the gap.</details>

# %% cell="setup"


# %% cell="given" id="copying"
from labutils import profiles


def copying(timeline, begin, end):
    """Return the time in µs, between begin and end, in which at least one copy runs."""
    total = 0.0
    for first, last, engine, _, _ in sorted(timeline):
        if engine == "copy" and min(last, end) > max(first, begin):
            total += min(last, end) - max(first, begin)
            begin = min(last, end)
    return total


# %% cell="solution" id="gaps"
def gaps(timeline):
    """Return a dict with the keys "copy", "sync", "launch" and "start": µs without a kernel, by cause."""
    waited = {"copy": 0.0, "sync": 0.0, "launch": 0.0, "start": 0.0}
    ### BEGIN SOLUTION
    calls = [event for event in timeline if event[2] == "host"]
    kernels = sorted(event for event in timeline if event[2] == "kernel")
    free = kernels[0][0] if kernels else 0.0
    for begin, end, _, _, correlation in kernels:
        if begin > free:
            copied = copying(timeline, free, begin)
            if any("Synchronize" in name and free < last < begin for _, last, _, name, _ in calls):
                cause = "sync"
            elif any(number == correlation and last > free for _, last, _, _, number in calls):
                cause = "launch"
            else:
                cause = "start"
            waited["copy"] += copied
            waited[cause] += begin - free - copied
        free = max(free, end)
    ### END SOLUTION
    return waited


# %% cell="check" exercise="25_profile/gaps"
lab.check("25_profile/gaps")

# %% [markdown]
# ## 2 Find the bottleneck
#
# [Nsight Compute](../glossary.md#nsight-compute) measures hundreds of [metrics](../glossary.md#metric), also called
# counters, for one launch of a kernel. A `report` is a dict from the names of metrics to numbers. Our stored reports
# come from kernels of this course on an H200. Each kernel has one known bottleneck, which you can find from the metrics
# in the next code cell. `diagnose` returns the first name in this table whose condition holds:
#
# | name | condition |
# |---|---|
# | `"launch-bound"` | `TIME` below 5000 (ns) |
# | `"tail wave"` | `WAVES` above 1, and `ACTIVE_AVG` below 0.85 · `ACTIVE_MAX` (active cycles per SM: mean, maximum) |
# | `"spills"` | any request to local memory (`LOCAL_LD`, `LOCAL_ST`) |
# | `"divergence"` | `THREADS`, the mean number of active lanes per instruction, below 24 |
# | `"compute-bound"` | `SM` (% of its peak) at least 50, and greater than `DRAM` |
# | `"bank conflicts"` | the sum of `WAVEFRONTS` (loads and stores) is above 4 times the sum of `ACCESSES` |
# | `"uncoalesced"` | for loads or stores, `USED` (bytes used per sector) below 16 but not 0 (0: no accesses) |
# | `"memory-bound"` | `DRAM` (global memory, % of its peak) at least 50 |
# | `"latency-bound"` | none of the others: neither the SMs nor DRAM are busy |
#
# The order matters, because one bottleneck can cause others: spills, for example, also make a kernel wait for memory.
# The cell that runs the check also runs your function on all stored reports.
#
# **Predict.** A transpose stores columns of a matrix, so each store uses 4 bytes of a sector. What does `diagnose`
# return for this transpose?
#
# <details><summary>Hint 1</summary>A kernel without accesses to shared memory has no conflicts: do not divide by
# 0.</details>
# <details><summary>Hint 2</summary><code>0 &lt; report[name] &lt; 16</code> is false for a kernel without loads.
# </details>
# <details><summary>Hint 3</summary>Write one <code>if … return</code> per row, in the order of the
# table.</details>


# %% cell="solution" id="diagnose"
TIME, WAVES = "gpu__time_duration.sum", "launch__waves_per_multiprocessor"
ACTIVE_AVG, ACTIVE_MAX = "sm__cycles_active.avg", "sm__cycles_active.max"
LOCAL_LD, LOCAL_ST = (f"l1tex__t_requests_pipe_lsu_mem_local_op_{way}.sum" for way in ("ld", "st"))
THREADS = "smsp__thread_inst_executed_per_inst_executed.ratio"
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
WAVEFRONTS = [f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{way}.sum" for way in ("ld", "st")]
ACCESSES = [f"smsp__inst_executed_op_shared_{way}.sum" for way in ("ld", "st")]
USED = [f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{way}.ratio" for way in ("ld", "st")]


def diagnose(report):
    """Return the name of the bottleneck, the first in the table whose condition holds."""
    ### BEGIN SOLUTION
    accesses = sum(report[name] for name in ACCESSES)
    if report[TIME] < 5000:
        return "launch-bound"
    if report[WAVES] > 1 and report[ACTIVE_AVG] < 0.85 * report[ACTIVE_MAX]:
        return "tail wave"
    if report[LOCAL_LD] + report[LOCAL_ST] > 0:
        return "spills"
    if report[THREADS] < 24:
        return "divergence"
    if report[SM] >= 50 and report[SM] > report[DRAM]:
        return "compute-bound"
    if sum(report[name] for name in WAVEFRONTS) > 4 * accesses > 0:
        return "bank conflicts"
    if any(0 < report[name] < 16 for name in USED):
        return "uncoalesced"
    if report[DRAM] >= 50:
        return "memory-bound"
    return "latency-bound"
    ### END SOLUTION


# %% cell="check" exercise="25_profile/diagnose"
lab.check("25_profile/diagnose")
profiles.try_all(diagnose)

# %% [markdown]
# ## 3 Machine code
#
# The compiler may not do what you expect. To see what it did, read SASS, the machine code of NVIDIA's GPUs. NVIDIA
# documents little more than the names of SASS instructions, but a few instructions answer most questions:
#
# | instruction | meaning |
# |---|---|
# | `LDG`, `STG` | load from global memory to a register, store from a register to global memory |
# | `LDS`, `STS` | the same for shared memory |
# | `LDL`, `STL` | the same for local memory: [spilled](../glossary.md#spill) registers |
# | `LDC` | load a constant, or an argument of the kernel |
# | `LDGSTS`, `UTMALDG` | asynchronous copies from global to shared memory |
# | `HMMA` | tensor core instruction of one warp (`mma.sync`) |
# | `HGMMA` | tensor core instruction of four warps (`wgmma`) |
# | `HFMA2.MMA` | two fp16 [multiply-adds](../glossary.md#fma), often sets a register to a constant: 0 · 0 + constant |
#
# Suffixes follow the name, each after a dot. A load or store moves 4 bytes per lane, unless a suffix gives another
# width in bits: `U8`, `S8`, `U16`, `64` or `128`. `@P0` or `@!P0` before an instruction is a
# [predicate](../glossary.md#predicate): only lanes whose condition holds execute it. In
# `LDG.E.128 R4, desc[UR4][R2.64]`, the `128` is the width of the load. The `64` belongs to the address.
#
# `text` holds one instruction per line, such as `/*0040*/ @P0 LDG.E.128 R4, desc[UR4][R2.64] ;`. `read_sass` returns
# three values:
#
# - the bytes per lane of the widest `LDG`, or 0 if there is none;
# - the tensor core instruction that the kernel uses, `"wgmma"` or `"mma.sync"`, or `None` if it uses none;
# - the number of instructions that access local memory.
#
# <details><summary>Hint 1</summary>Split each line into words. The first word is the address, and the second one may be
# a predicate.</details>
# <details><summary>Hint 2</summary>Split the instruction at its dots. Compare the first part with a name, because
# <code>LDGDEPBAR</code> and <code>LDGSTS</code> also begin with <code>LDG</code>.</details>
# <details><summary>Hint 3</summary>A dict maps suffixes to bytes: <code>{"U8": 1, "S8": 1, "U16": 2, "64": 8, "128":
# 16}</code>.</details>


# %% cell="given" id="launchers"
import torch
from triton import cdiv


def brighten(x, scale, out):
    n = x.numel()
    aligned = x.data_ptr() % 16 == 0 and out.data_ptr() % 16 == 0
    brighten_kernel[cdiv(n, 2 * 8 * 256), 256](out, x, scale, n // 8 if aligned else 0, n)


def interleave(x, out):
    M, N = x.shape
    interleave_kernel[(cdiv(N, 32), cdiv(M, 32)), (32, 8)](out, x, M, N)


print(profiles.listing("one fp16 value per thread"))
lab.claims("25_profile")  # a two-minute quiz: predict each number, then compare


# %% cell="solution" id="read_sass"
def read_sass(text):
    """Return (bytes of the widest LDG, "wgmma", "mma.sync" or None, instructions that access local memory)."""
    ### BEGIN SOLUTION
    widths = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
    widest, names = 0, []
    for line in text.splitlines():
        words = line.split()
        name, *suffixes = words[2 if words[1].startswith("@") else 1].split(".")
        names.append(name)
        if name == "LDG":
            widest = max(widest, *([widths[s] for s in suffixes if s in widths] or [4]))
    matrix = "wgmma" if "HGMMA" in names else "mma.sync" if "HMMA" in names else None
    return widest, matrix, names.count("LDL") + names.count("STL")
    ### END SOLUTION


# %% cell="check" exercise="25_profile/read_sass"
lab.check("25_profile/read_sass")

# %% [markdown]
# ## 4 Make the compiler load 16 bytes
#
# Scale `x`, an image in [fp16](../glossary.md#fp16), by an fp32 number: `out[i] = scale * x[i]`. Part 3 printed the
# listing of a kernel in which each thread scales one value. It loads 2 bytes per lane, so a request of 32 lanes moves
# 64 bytes. With the widest load, 16 bytes per lane, a request moves 512 bytes. For this load, a thread must process
# eight adjacent values, and the address must be a multiple of 16. The compiler does not know whether the address is a
# multiple of 16. A cast of the pointer to `uint4*` promises it, because `uint4` is a type of 16 bytes that is aligned
# to 16 bytes.
#
# ```cpp
# uint4 packed = reinterpret_cast<const uint4*>(x)[g];    // group g: eight fp16 values, loaded at once
# __half2* pairs = reinterpret_cast<__half2*>(&packed);   // four pairs, in registers
# ```
#
# The launcher passes `groups`, the number of whole groups of 8 elements. If `x` or `out` does not begin at a multiple
# of 16 bytes, `groups` is 0. Your kernel must load and store the elements after the last group one by one. You get 1
# point for a correct result, 1 point if loads move at least 500 bytes per request, and 1 point if stores do. The
# check's cell also shows the loads and stores in your kernel's machine code.
#
# <details><summary>Hint 1</summary>Write two loops, one over the groups and one over the remaining elements. Both loops
# advance by <code>threads</code>.</details>
# <details><summary>Hint 2</summary><code>__half22float2</code> converts a pair to a <code>float2</code>, and
# <code>__floats2half2_rn</code> converts two floats to a pair.</details>
# <details><summary>Hint 3</summary>Write the scaled pairs back to <code>pairs[k]</code>. Then store <code>packed</code>
# in <code>out</code>, with the cast to <code>uint4*</code>.</details>

# %% cell="solution" id="brighten_kernel"
# %%cuda
# #include <cuda_fp16.h>
#
# __global__ void brighten_kernel(__half* out, const __half* x, float scale, int groups, int n) {
#     // out[i] = scale * x[i]. The first 8 * groups elements are read and written 16 bytes at a time.
#     const int first = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
#     // ### BEGIN SOLUTION
#     for (int g = first; g < groups; g += threads) {
#         uint4 packed = reinterpret_cast<const uint4*>(x)[g];
#         __half2* pairs = reinterpret_cast<__half2*>(&packed);
#         #pragma unroll
#         for (int k = 0; k < 4; k++) {
#             const float2 pair = __half22float2(pairs[k]);
#             pairs[k] = __floats2half2_rn(scale * pair.x, scale * pair.y);
#         }
#         reinterpret_cast<uint4*>(out)[g] = packed;
#     }
#     for (int i = 8 * groups + first; i < n; i += threads) {
#         out[i] = __float2half(scale * __half2float(x[i]));
#     }
#     // ### END SOLUTION
# }

# %% cell="check" exercise="25_profile/brighten"
lab.check("25_profile/brighten")
profiles.code(brighten_kernel)  # the accesses of 2 bytes belong to the elements after the last group

# %% [markdown]
# ## 5 Three faults, one metric at a time
#
# A sound recording has M channels with N samples each. `x` holds one channel after another; `out` holds sample 0 of all
# channels, then sample 1 of all channels, and so on: `out[n][m] = clip(x[m][n])`. For an even m, `clip` is `even_clip`;
# for an odd m, it is `odd_clip`. The kernel below computes correct results, but it is slow because of three faults:
#
# ```cpp
# __shared__ float tile[32][32];
# const int m = first_m + tx;
# for (int y = threadIdx.y; y < 32; y += 8) {
#     const int n = first_n + y;
#     if (m < M && n < N) tile[tx][y] = x[m * N + n];
# }
# __syncthreads();
# for (int y = threadIdx.y; y < 32; y += 8) {
#     const int n = first_n + y;
#     if (m < M && n < N) out[n * M + m] = m % 2 == 0 ? even_clip(tile[tx][y]) : odd_clip(tile[tx][y]);
# }
# ```
#
# Copy this code into `interleave_kernel` and run the check. Find and fix one fault at a time, as you would with a
# profiler: read the counter, change the code, and read the counter again. The check shows the next counter only when
# the previous counter has a good value. You get 1 point for a correct result, and 1 point for each fault that you fix.
# In step 3, the check also counts square roots: a kernel that computes both `even_clip` and `odd_clip` for every sample
# does not get this point.
#
# | step | what the check counts | metric in Nsight Compute |
# |---|---|---|
# | 1 | sectors per request | `l1tex__t_sectors_…_global_op_ld.sum` over `l1tex__t_requests_…_global_op_ld.sum` |
# | 2 | wavefronts, divided by those without bank conflicts | `l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum` |
# | 3 | share of active lanes | `smsp__thread_inst_executed_per_inst_executed.ratio` over 32 |
#
# **Predict** before each change: which counter changes, and to what value? The check's cell also shows the counts of
# each line.
#
# **In practice**, `ncu --set full -o report python program.py` measures hundreds of metrics and writes them to a
# file, and the program `ncu-ui` shows them, with advice. Start with this advice, but compare it with the metrics.
#
# <details><summary>Hint 1</summary>Which index moves along a row of <code>x</code>, m or n? In the first loop, this
# index should depend on <code>threadIdx.x</code>.</details>
# <details><summary>Hint 2</summary>All elements of a column of the tile are in the same bank.
# <code>09_shared_memory</code> shows two fixes.</details>
# <details><summary>Hint 3</summary>After the fixes of steps 1 and 2, in which of the two loops do all lanes of a warp
# have the same channel <code>m</code>? Clip there.</details>

# %% cell="solution" id="interleave_kernel"
# %%cuda
# __device__ float even_clip(float v) {
#     for (int k = 0; k < 8; k++) v = v / (1.0f + fabsf(v));
#     return v;
# }
# __device__ float odd_clip(float v) {
#     for (int k = 0; k < 8; k++) v = v / sqrtf(1.0f + v * v);
#     return v;
# }
#
# __global__ void interleave_kernel(float* out, const float* x, int M, int N) {
#     // out[n][m] = clip(x[m][n]); a block of 32 * 8 threads moves a tile of 32 * 32 samples.
#     const int tx = threadIdx.x, first_m = blockIdx.y * 32, first_n = blockIdx.x * 32;
#     // ### BEGIN SOLUTION
#     __shared__ float tile[32][33];
#     for (int y = threadIdx.y; y < 32; y += 8) {
#         const int m = first_m + y, n = first_n + tx;
#         if (m < M && n < N) tile[y][tx] = m % 2 == 0 ? even_clip(x[m * N + n]) : odd_clip(x[m * N + n]);
#     }
#     __syncthreads();
#     for (int y = threadIdx.y; y < 32; y += 8) {
#         const int m = first_m + tx, n = first_n + y;
#         if (m < M && n < N) out[n * M + m] = tile[tx][y];
#     }
#     // ### END SOLUTION
# }

# %% cell="check" exercise="25_profile/interleave"
lab.check("25_profile/interleave")
with lab.record():
    interleave(torch.rand(64, 64), torch.empty(64, 64))
lab.annotate(interleave_kernel)

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** A kernel reads one column of a row-major fp32 matrix with 1024 columns. The profiler reports that DRAM
# reaches 85 % of its peak, and that loads use 4 bytes of each sector. A colleague wants to store the matrix in fp16,
# because the kernel is memory-bound. Which of the two metrics shows that this does not help? Which other change does
# help? Would fp16 help after this change?
#
# ### BEGIN SOLUTION
# Loads use 4 of the 32 bytes of a sector, so seven eighths of the bytes that DRAM delivers are not used. In fp16, two
# elements of the column are still 2048 bytes apart, so each needs a sector of its own: the kernel moves as many sectors
# as before and uses only 2 bytes of each. A layout in which the column is contiguous helps: loads are coalesced and use
# all 32 bytes of each sector, so DRAM moves an eighth of the bytes. After this change, the kernel uses all bytes that
# DRAM moves, so fp16 halves the time again.
# ### END SOLUTION

# %% [markdown]
# # Measure time correctly
#
# **You will** find five faults in a benchmark, write a correct benchmark, and find out from kernels' names what these
# kernels do.
#
# **You will learn to**
# - compute when a queue of [kernels](../glossary.md#kernel) finishes;
# - [warm up](../glossary.md#warmup) the GPU, [flush](../glossary.md#flush) the cache, time with
#   [events](../glossary.md#event), and report a median with its [spread](../glossary.md#spread);
# - distinguish [end-to-end time](../glossary.md#end-to-end-time) from kernel time, and a
#   [cold](../glossary.md#cold-cache) from a [hot cache](../glossary.md#hot-cache);
# - read from a kernel's name which operation it computes, whether it uses [tensor cores](../glossary.md#tensor-core),
#   and how large its [tile](../glossary.md#tile) is.
#
# **You need** `00_start`. About 60 minutes. Works without a GPU: the check runs your benchmark on simulated GPUs, where
# the true times are known.
#
# ## 1 A launch is asynchronous
#
# `kernel[grid](…)` returns as soon as the [launch](../glossary.md#launch) is in the GPU's queue. On a machine with an
# [H200](../glossary.md#hopper), we measured how long a launch keeps the [host](../glossary.md#host) (the CPU) busy:
# about {claim: driver_launch} for a call of the CUDA [driver](../glossary.md#driver), and about {claim: pytorch_launch}
# for a PyTorch function, whatever the kernel does. The GPU processes the queue on its own; `torch.cuda.synchronize()`
# [makes the host wait](../glossary.md#synchronize) until the queue is empty.
#
# **Predict.** The host launches `count` kernels one after another, then synchronizes. Each launch takes `launch` µs on
# the host, and each kernel takes `kernel` µs on the GPU. A kernel starts when its launch and the previous kernel have
# finished. Write `finish_time`: how many µs pass from the start of the first launch until the last kernel has finished?
#
# <details><summary>Hint 1</summary>Draw the timeline of three kernels: the launches in one row, the kernels in a row
# below. Draw it once with long kernels, and once with long launches.</details>
# <details><summary>Hint 2</summary>If kernels take longer than launches, the GPU never waits after its first kernel. If
# launches take longer, each kernel starts as soon as its own launch has finished.</details>
# <details><summary>Hint 3</summary>The first launch and the last kernel overlap with nothing. Between them,
# <code>count - 1</code> intervals pass, each as long as a launch or a kernel, whichever takes longer.</details>

# %% cell="setup"


# %% cell="solution" id="finish_time"
def finish_time(count, launch, kernel):
    """Return the microseconds from the start of the first launch to the end of the last of `count` kernels."""
    ### BEGIN SOLUTION
    return launch + (count - 1) * max(launch, kernel) + kernel
    ### END SOLUTION


# %% cell="check" exercise="04_benchmarking/finish_time"
lab.check("04_benchmarking/finish_time")

# %% [markdown]
# ## 2 A faulty benchmark
#
# A benchmark in this unit gets an object `machine`: a `GPU`, which runs kernels, or a `SimulatedGPU`, which only
# computes how long each call would take. Both have these methods:
#
# | call | meaning |
# |---|---|
# | `machine.now()` | return the time on the host's clock, in seconds |
# | `machine.event()` | queue an event and return it; the event stores the time at which the GPU reaches the event |
# | `machine.seconds(a, b)` | return the seconds between events `a` and `b`; the GPU must have reached both |
# | `machine.synchronize()` | make the host wait until the queue is empty |
# | `machine.flush()` | queue a write of twice as many bytes as the L2 cache holds: no older data remain in the L2 |
#
# The simulated GPU behaves like a real one:
#
# - The first call of a kernel compiles it.
# - An idle GPU saves power with a low clock rate, which rises during about 50 ms of work.
# - The [L2 cache](../glossary.md#l2-cache) keeps recently used data.
# - Other work on the machine sometimes delays a call.
#
# The cell below defines the benchmark `dishonest`. It times a function `call` that launches one kernel. The benchmark
# has the five faults of the table below; each fault makes the result wrong. On which line is each fault? Let `faults`
# return a dictionary that maps each key to a line number, such as `{"compile": 1, "clocks": 1, …}`. If a fault spans
# several lines, the check accepts any of these lines.
#
# | key | fault |
# |---|---|
# | `"compile"` | one of the averaged times includes compilation |
# | `"clocks"` | the warmup is too short, so the clock rate is still low |
# | `"cache"` | the time with a cold L2 is wanted, but nothing flushes the L2 before a measured call |
# | `"queue"` | the host's clock is read before the GPU has finished the measured call |
# | `"outliers"` | a few delayed calls dominate the result |

# %% cell="given" id="dishonest"
import statistics

from labutils import GPU, SimulatedGPU


def dishonest(machine, call):
    begin = machine.now()  # line 1
    call()  # line 2
    times = [machine.now() - begin]  # line 3
    for _ in range(9):  # line 4: warm up
        call()  # line 5
    for _ in range(40):  # line 6
        start = machine.now()  # line 7
        call()  # line 8
        times.append(machine.now() - start)  # line 9
    machine.synchronize()  # line 10
    return sum(times) / len(times)  # line 11


simulated = SimulatedGPU(cold_s=100e-6, hot_s=40e-6)  # a call's time with a cold and with a hot L2
print(f"reported: {dishonest(simulated, simulated.call) * 1e6:,.0f} µs; the truth: 100 µs with a cold L2")


# %% cell="solution" id="faults"
def faults():
    """Return {key: line number} for the five faults of `dishonest`."""
    ### BEGIN SOLUTION
    return {"compile": 3, "clocks": 4, "cache": 8, "queue": 9, "outliers": 11}
    ### END SOLUTION


# %% cell="check" exercise="04_benchmarking/faults"
lab.check("04_benchmarking/faults")

# %% [markdown]
# ## 3 A correct benchmark
#
# Write `honest(machine, call)`. It must return the median time of one `call()` in seconds. Measure the kernel without
# its launch, with a cold L2 (no data of the kernel are in it), and at the full clock rate. The check runs your function
# on simulated GPUs and tolerates an error of 2 %.
#
# One *sample* is the time between an event before the call and an event after it. If the GPU is idle at the first
# event, this time includes the launch, because the GPU must wait for the launch. So keep the GPU busy: queue a flush
# before the first event of each sample. Then the host queues the call while the GPU still executes the flush. Queue all
# samples without waiting, and read the events at the end.
#
# <details><summary>Hint 1</summary>The function has three parts: make the first call, which compiles; warm up the GPU;
# take samples.</details>
# <details><summary>Hint 2</summary>Warm up for a time, not for a number of calls: repeat <code>call()</code> and
# <code>machine.synchronize()</code> until 0.1 s have passed.</details>
# <details><summary>Hint 3</summary>For each sample, queue a flush, an event, the call and another event. Queue a
# hundred samples or more, synchronize once, then take the median of <code>machine.seconds(a, b)</code> over the pairs
# of events.</details>


# %% cell="solution" id="honest"
def honest(machine, call):
    """Return the median time of call() in seconds, from a cold L2."""
    ### BEGIN SOLUTION
    call()  # compiles
    begin = machine.now()
    while machine.now() - begin < 0.1:  # the clocks rise
        call()
        machine.synchronize()
    pairs = []
    for _ in range(200):
        machine.flush()
        start = machine.event()
        call()
        pairs.append((start, machine.event()))
    machine.synchronize()
    return statistics.median(machine.seconds(start, stop) for start, stop in pairs)
    ### END SOLUTION


# %% cell="check" exercise="04_benchmarking/honest"
lab.check("04_benchmarking/honest")

# %%
lab.plots.show(lab.machine_plots.calls, honest)  # every call of your benchmark on a simulated GPU

# %% [markdown]
# | what you see in a benchmark | common cause |
# |---|---|
# | every kernel takes about 10 µs | the host's clock was read without synchronizing, so only the launch was timed |
# | the first run of a cell is far slower | the first run compiles kernels, loads libraries and allocates memory |
# | 110 % of the GPU's [bandwidth](../glossary.md#bandwidth) | data came from the L2, because nothing flushed it |
# | the same kernel takes 20 % longer today | another job, heat or a power limit lowered the clock rate |
# | mean and median differ widely | other work delayed some calls: report the median and the spread |
#
# ## 4 On the real GPU
#
# `lab.benchmark(fn, x, bytes=…)` measures as your `honest` does, and takes samples until the median is known to within
# 1 %. `lab.compare` runs functions A and B in the order A B B A, so changes of the clock rate favor neither. The cell
# below compares three versions of GeLU, a function that `06_elementwise_triton` explains. In
# [`naive`](../glossary.md#naive), each of the nine operations is a kernel. For arrays of n elements, five of these
# kernels move 2n elements each (they read one array and write one), and four move 3n each: together 22n. `built_in` and
# `compiled` are one kernel each, and move 2n elements. Predict first: by what factor is `naive` slower than these two?

# %% cell="given" id="gelus"
import torch


def naive(x):
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def built_in(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


gpu = lab.device.has_gpu()
x = torch.randn(2**27 if gpu else 2**10, device="cuda" if gpu else "cpu")
contenders = {"built_in": built_in, "naive": naive}
if gpu:
    contenders["compiled"] = torch.compile(naive)
    real = GPU()
    print(f"honest: {honest(real, lambda: built_in(x)) * 1e6:.1f} µs; lab.benchmark:")
    print(lab.benchmark(built_in, x, bytes=8 * x.numel()))
print(lab.compare(x, **contenders) or "The end of this notebook has a measurement of an H200.")

# %% [markdown]
# ## 5 Which kernel ran?
#
# A [profiler](../glossary.md#profiler) shows what a benchmark cannot: which kernels ran, in which order, and whether
# there were gaps between them. `lab.profile` runs PyTorch's profiler and explains the names of the kernels. Profiling
# slows down the host, so use a profile for the times of single kernels, not of the whole program.
#
# Here are names of kernels from profiles of real programs:
#
# ```
# A  ampere_sgemm_128x64_tn
# B  sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x…
# C  nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTT
# D  void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(…)
# E  triton_poi_fused_gelu_0
# ```
#
# A, B and C are kernels of NVIDIA's libraries. The names of such kernels follow these rules:
#
# - A kernel is a [matmul](../glossary.md#matmul) if its name contains `gemm` or begins with `nvjet_`.
# - Letters directly before `gemm`, before the digits in front of it, or directly after `nvjet_` are data types, as in
#   `sgemm`, `s16816gemm` and `nvjet_hsh`: `s` is [fp32](../glossary.md#fp32), `h` is [fp16](../glossary.md#fp16), `t`
#   is [bf16](../glossary.md#bf16).
# - Digits between such a letter and `gemm` are the shape of a tensor-core instruction: `s16816gemm` multiplies with
#   16×8×16 instructions.
# - Matmuls whose name contains `warpgroup` or `tf32` (fp32 values rounded to [TF32](../glossary.md#tf32)), or begins
#   with `nvjet_`, use tensor cores too. Other fp32 matmuls do not.
# - The first two sizes joined by `x`, such as 128 and 64 in `128x64` or `128x64x32`, are the output tile.
# - `tn` describes the two operands: `t` is transposed, `n` is not transposed.
#
# **Read the names.** Let `read_names` return a dictionary `{"A": (operation, tensor_cores, tile), …, "E": …}`.
# `operation` is `"matmul"`, `"add"` or `"gelu"`. `tensor_cores` is `True` if the kernel uses tensor cores, and `False`
# otherwise. `tile` is the output tile of a matmul, as in `(64, 32)`, and `None` for other operations. For example,
# `s16816gemm_64x32` gives `("matmul", True, (64, 32))`. On a GPU, the next cell shows such names in a profile of an
# addition and a matmul.

# %%
lab.claims("04_benchmarking")  # a two-minute quiz: predict each number, then compare
a = torch.randn(4096 if gpu else 4, 4096 if gpu else 4, device=x.device, dtype=torch.float16)


def add_then_multiply(a):
    return (a + a) @ a


seen = lab.profile(add_then_multiply, a)
print(seen or "")
seen.timeline() if seen else None


# %% cell="solution" id="read_names"
def read_names():
    """Return {"A": (operation, tensor_cores, tile), …, "E": …}."""
    ### BEGIN SOLUTION
    return {
        "A": ("matmul", False, (128, 64)),
        "B": ("matmul", True, (128, 128)),
        "C": ("matmul", True, (128, 256)),
        "D": ("add", False, None),
        "E": ("gelu", False, None),
    }
    ### END SOLUTION


# %% cell="check" exercise="04_benchmarking/read_names"
lab.check("04_benchmarking/read_names")

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** In a training loop, a colleague synchronizes before and after a kernel, reads `time.time()` after each
# synchronization, and measures 48 µs. For the same kernel, `lab.benchmark` reports 30 µs with a cold cache and 22 µs
# with a hot cache. Which of the three times are right? What does each time measure?
#
# ### BEGIN SOLUTION
# All three. With synchronize on both sides, the GPU is idle when the launch begins, so the 48 µs include the launch and
# the time until the host continues. This is the end-to-end time of a single call. In a loop that does not wait,
# launches overlap with kernels, so only the kernel's time counts. Whether 30 or 22 describes the loop depends on what
# ran before: if the kernel's input was just written and fits into the L2, 22 is closer.
# ### END SOLUTION

# %% [markdown]
# **Measured.** On an H200 with 2²⁷ fp32 elements, `naive` takes {claim: naive_gelu}, `built_in` {claim: built_in_gelu}
# and `compiled` {claim: compiled_gelu}.
#
# **Next levels.** Let `honest` compute a confidence interval of the median, and stop when the interval is narrow.
# `04_tolerances` asks when two results are equal. `05_roofline` computes the least time that a kernel can take.
#
# **In practice** `triton.testing.do_bench` flushes and uses events as you did. [Nsight
# Compute](../glossary.md#nsight-compute) fixes the clock rate and replays one launch many times. [Nsight
# Systems](../glossary.md#nsight-systems) shows the whole program's timeline.
#
# **Reading.** [torch.profiler](https://docs.pytorch.org/docs/stable/profiler.html): what the profiler records, and its
# overhead. [Nsight Compute, profiling guide](https://docs.nvidia.com/nsight-compute/ProfilingGuide/): how this profiler
# controls clock rates and caches.

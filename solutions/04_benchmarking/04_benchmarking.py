# %% [markdown]
# # Measure time correctly
#
# **You will** compute when a queue of [kernels](../glossary.md#kernel) finishes, find five faults in a benchmark, write
# a correct benchmark, and read from the names in a profile what each kernel does.
#
# **You will learn to**
# - compute when a queue of kernels finishes, and whether the host or the GPU had to wait;
# - [warm up](../glossary.md#warmup) the GPU, flush the cache, time with [events](../glossary.md#event), and report a
#   median with its spread;
# - distinguish [end-to-end time](../glossary.md#end-to-end-time) from kernel time, and a
#   [cold](../glossary.md#cold-cache) from a [hot cache](../glossary.md#hot-cache);
# - read operation, precision and [tile](../glossary.md#tile) from a kernel's name.
#
# **You need** `00_start`. About 60 minutes. Works without a GPU: the check runs your benchmark on simulated GPUs whose
# true times are known. Real times need a real GPU.
#
# ## 1 A launch is asynchronous
#
# `kernel[grid](…)` returns as soon as the [launch](../glossary.md#launch) is in the GPU's queue. On an H200 this takes
# about {claim: driver_launch} for a call of the CUDA driver and {claim: pytorch_launch} for a call of PyTorch, whatever
# the kernel does. The GPU processes the queue on its own; `torch.cuda.synchronize()` [makes the host
# wait](../glossary.md#synchronize) until the queue is empty. The [host](../glossary.md#host) is the CPU and its
# program.
#
# **Predict.** The host launches `count` kernels one after another, then synchronizes. Each launch takes `launch` µs on
# the host, and each kernel takes `kernel` µs on the GPU. A kernel can start when its launch has finished. How many µs
# pass until everything is done?
#
# <details><summary>Hint 1</summary>For three kernels, draw a row of launches on the host above a row of kernels on the
# GPU. Draw one picture with long kernels and one with long launches.</details>
# <details><summary>Hint 2</summary>Between the first launch and the last kernel, the slower of launch and kernel
# determines the time per step.</details>
# <details><summary>Hint 3</summary>The first launch and the last kernel overlap with nothing. Between them are count −
# 1 steps.</details>

# %% cell="setup"


# %% cell="solution" id="finish_time"
def finish_time(count, launch, kernel):
    """Microseconds from the first launch until the last of `count` kernels is done."""
    ### BEGIN SOLUTION
    return launch + (count - 1) * max(launch, kernel) + kernel
    ### END SOLUTION


# %% cell="check" exercise="04_benchmarking/finish_time"
lab.check("04_benchmarking/finish_time")

# %% [markdown]
# ## 2 A faulty benchmark
#
# A `machine` object has the methods that a benchmark needs. `GPU` is the real one; `SimulatedGPU` has the same methods,
# but counts simulated time instead of waiting:
#
# | call | meaning |
# |---|---|
# | `machine.now()` | return the host's clock, in seconds |
# | `machine.event()` | queue an event: the GPU takes its time stamp when it reaches the event |
# | `machine.seconds(a, b)` | return the time between two events that the GPU has reached |
# | `machine.synchronize()` | make the host wait until the queue is empty |
# | `machine.flush()` | queue a write of twice the size of the L2, which evicts all older data |
#
# The simulated GPU behaves like a real one:
#
# - The first call of a kernel compiles it.
# - An idle GPU saves power: its clocks rise during about 50 ms of work.
# - Its [L2 cache](../glossary.md#l2-cache) keeps recently used data.
# - Other work sometimes disturbs a call.
#
# The cell below defines a benchmark with five faults, each of which makes the result wrong. On which line does each
# occur? Faults hide each other: fixing only one of them may make the reported time smaller or larger, or hardly change
# it.
#
# | key | fault |
# |---|---|
# | `"compile"` | one of the measured times includes compilation |
# | `"clocks"` | the warmup is too short, so the GPU's clocks are still low |
# | `"cache"` | data come from the L2, but in the real program they come from memory |
# | `"queue"` | the host's clock is read while the GPU is still working |
# | `"outliers"` | a few disturbed runs dominate the result |

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


pretended = SimulatedGPU(cold_s=100e-6, hot_s=40e-6)
print(f"reported: {dishonest(pretended, pretended.call) * 1e6:,.0f} µs; the truth: 100 µs from a cold L2")


# %% cell="solution" id="faults"
def faults():
    """The line of `dishonest` on which each fault occurs."""
    ### BEGIN SOLUTION
    return {"compile": 3, "clocks": 4, "cache": 8, "queue": 9, "outliers": 11}
    ### END SOLUTION


# %% cell="check" exercise="04_benchmarking/faults"
lab.check("04_benchmarking/faults")

# %% [markdown]
# ## 3 A correct benchmark
#
# Write `honest(machine, call)`. It returns the median time of one `call()` in seconds. The data of each call come from
# memory, the clocks are high, and the time does not include the launch. The check runs your function on simulated GPUs
# and tolerates an error of 2 %.
#
# The time between two events does not include the launch if the GPU is still busy while the host queues event, call and
# event. A flush before them evicts the data from the cache and also keeps the GPU busy. So queue all samples without
# waiting, and read the events at the end.
#
# <details><summary>Hint 1</summary>The function has three parts: make the first call, do work until the clocks have
# risen, and take samples.</details>
# <details><summary>Hint 2</summary>Warm up for a time, not for a number of calls: repeat <code>call()</code> and
# <code>machine.synchronize()</code> until 0.1 s have passed.</details>
# <details><summary>Hint 3</summary>A sample is flush, event, call, event. Queue a hundred samples or more, synchronize
# once, then take the median of <code>machine.seconds(a, b)</code> over the pairs of events.</details>


# %% cell="solution" id="honest"
def honest(machine, call):
    """Median time of call() in seconds, with its data in memory, not in the L2."""
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
# | what you see | common cause |
# |---|---|
# | every kernel takes about 10 µs | the host's clock was read without synchronizing |
# | the first run of a cell is far slower | compilation, lazy loading of libraries, first allocation |
# | 110 % of the GPU's [bandwidth](../glossary.md#bandwidth) | data came from the L2, because it was not flushed |
# | the same kernel takes 20 % longer today | slower clocks: another job, heat, a power limit; alternate runs |
# | mean and median differ widely | disturbed runs; report the median and the 20th and 80th percentiles |
#
# ## 4 On the real GPU
#
# `lab.benchmark(fn, x, bytes=…)` follows the rules of part 3, uses several copies of x in turn, and takes samples until
# the median is known within 1 %. `lab.compare` alternates functions in the order A B B A, so clocks and heat favor
# neither. The cell below compares three versions of GeLU, a function that `06_elementwise_triton` explains. `naive`
# moves 22n elements to and from memory, because each operation is a kernel of its own. The other two versions move 2n
# elements. Predict the ratio of the times first.

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
    print(f"honest: {honest(real, lambda: built_in(x)) * 1e6:.1f} µs, beside lab.benchmark:")
    print(lab.benchmark(built_in, x, bytes=8 * x.numel()))
print(lab.compare(x, **contenders) or "The end of this notebook has a measurement of an H200.")

# %% [markdown]
# ## 5 Which kernel ran?
#
# A [profiler](../glossary.md#profiler) shows what a benchmark cannot: which kernels ran, in which order, and whether
# there were gaps between them. `lab.profile` runs PyTorch's profiler and explains the names of the kernels;
# `tool="proton"` selects Triton's profiler. Profiling slows the host: take the times of kernels from a profile, but not
# the total time of the program.
#
# **Read these names** of kernels, which come from profiles of real programs:
#
# ```
# A  ampere_sgemm_128x64_tn
# B  sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x…
# C  nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTT
# D  void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(…)
# E  triton_poi_fused_gelu_0
# ```
#
# In the names of NVIDIA's libraries:
#
# - `gemm` is a [matmul](../glossary.md#matmul), and so is every kernel whose name begins with `nvjet_`.
# - Before `gemm` and after `nvjet_`, s means [fp32](../glossary.md#fp32), h means [fp16](../glossary.md#fp16), and t
#   means [bf16](../glossary.md#bf16).
# - Digits between such a letter and `gemm` are the shape of a [tensor-core](../glossary.md#tensor-core) instruction:
#   `s16816gemm` uses 16×8×16.
# - `warpgroup` also indicates tensor cores, and nvjet kernels always use them.
# - `tf32` is the tensor cores' version of fp32, [TF32](../glossary.md#tf32).
# - In `tn`, t means that an operand is transposed, and n that it is not.
#
# Return a dictionary `{"A": (operation, tensor_cores, tile), …, "E": …}`. The operation is a string such as `"matmul"`,
# `"add"` or `"gelu"`. `tensor_cores` is `True` if the kernel uses tensor cores, otherwise `False`. `tile` is the output
# tile of a matmul as (rows, columns); for other operations it is `None`. For example, `s16816gemm_64x32` gives
# `("matmul", True, (64, 32))`.

# %%
a = torch.randn(4096 if gpu else 4, 4096 if gpu else 4, device=x.device, dtype=torch.float16)


def add_then_multiply(a):
    return (a + a) @ a


seen = lab.profile(add_then_multiply, a)
print(seen or "")
seen.timeline() if seen else None


# %% cell="solution" id="read_names"
def read_names():
    """{"A": (operation, tensor cores, tile), …, "E": …}: a string, a bool, and (rows, columns) or None."""
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
# **Explain.** In a training loop, a colleague synchronizes before and after a kernel, reads `time.time()` on both
# sides, and measures 48 µs. `lab.benchmark` reports 30 µs cold and 22 µs hot. Who is right, and about what?
#
# ### BEGIN SOLUTION
# Both. With synchronize on both sides, the GPU is idle when the launch begins, so the 48 µs include the launch and
# waking the host. They are the end-to-end time of a single call. In a loop that does not wait, launches overlap with
# work, and the GPU's 30 µs count. Whether 30 or 22 describes the loop depends on what ran before: if the kernel's input
# was just written and fits into the L2, 22 is closer.
# ### END SOLUTION

# %% [markdown]
# **Measured.** On an H200 with 2²⁷ fp32 elements, `naive` takes {claim: naive_gelu}, `built_in` {claim: built_in_gelu}
# and `compiled` {claim: compiled_gelu}.
#
# **Next levels.** Add a confidence interval to `honest`, and stop when it is narrow. Write a version that alternates
# two calls: the ratio of their times is more stable than either time. Then continue with `05_roofline`, which computes
# what time a kernel can reach.
#
# **In practice** `triton.testing.do_bench` flushes and uses events as you did. [Nsight
# Compute](../glossary.md#nsight-compute) fixes the clocks and replays one launch many times. [Nsight
# Systems](../glossary.md#nsight-systems) shows the whole program's timeline.
#
# **Reading.** [torch.profiler](https://docs.pytorch.org/docs/stable/profiler.html): what the profiler records, and its
# overhead. [Nsight Compute, profiling guide](https://docs.nvidia.com/nsight-compute/ProfilingGuide/): how this profiler
# controls clocks and caches.

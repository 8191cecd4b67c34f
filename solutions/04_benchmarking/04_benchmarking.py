# %% [markdown]
# # Measure time honestly
#
# **You will** work out what a clock sees of a GPU, find five faults in a benchmark, write an honest one, and read from
# a profile which kernel ran.
#
# **You will learn to**
# - say when a queue of kernels is done, and who was waiting for whom;
# - warm up, flush, time with events, and report a median with its spread;
# - tell end-to-end time from kernel time, and a cold cache from a hot one;
# - read library, tile and precision from a kernel's name.
#
# **You need** `00_start`. About 60 minutes. Works without a GPU: your benchmark is judged on simulated GPUs, whose true
# times are known. Real times need a real one.

# %% cell="setup"

# %% [markdown]
# ## 1 A launch is not a run
#
# `kernel[grid](…)` returns as soon as the launch is in the GPU's queue: some 7 µs for a call of the driver, 11 for
# PyTorch's (H200), whatever the kernel does. The GPU works through the queue on its own; `torch.cuda.synchronize()`
# makes the host wait until it is empty.
#
# **Predict.** The host launches `count` kernels after each other and then synchronizes. Each launch takes `launch`
# µs of the host's time, each kernel `kernel` µs of the GPU's, and a kernel can begin when its launch is over. How many
# µs pass from the beginning until everything is done?
#
# <details><summary>Hint 1</summary>Draw two rows of boxes, host above GPU, for three kernels. First with long kernels,
# then with long launches.</details>
# <details><summary>Hint 2</summary>In the middle the slower of the two sets the pace.</details>
# <details><summary>Hint 3</summary>The first launch and the last kernel overlap with nothing of the other row; between
# the two lie count − 1 steps.</details>


# %% cell="solution" id="finish_time"
def finish_time(count, launch, kernel):
    """Microseconds from the first launch until the last of `count` kernels is done."""
    ### BEGIN SOLUTION
    return launch + (count - 1) * max(launch, kernel) + kernel
    ### END SOLUTION


# %% cell="check" exercise="04_benchmarking/finish_time"
lab.check("04_benchmarking/finish_time")

# %% [markdown]
# ## 2 A dishonest benchmark
#
# A *machine* is what a benchmark needs of a GPU. The simulated one, `SimulatedGPU`, has the same methods as the real
# one, and counts time in place of waiting:
#
# | call | meaning |
# |---|---|
# | `machine.now()` | the host's clock, in seconds |
# | `machine.event()` | queue a time stamp: it is taken when the GPU gets there |
# | `machine.seconds(a, b)` | between two stamps that have been taken |
# | `machine.synchronize()` | the host waits until the queue is empty |
# | `machine.flush()` | queue a write of twice the L2's size: nothing older stays in it |
#
# Like a real GPU it compiles in the first call, saves power (clocks rise within some 50 ms of work), keeps in its L2
# what was used last, and now and then something else disturbs a run.

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

# %% [markdown]
# Five faults, any of which spoils the result. On which line does each arise? Repairing one alone makes the number
# smaller, larger, or changes nothing much: faults hide each other.
#
# | key | fault |
# |---|---|
# | `"compile"` | the compiler's time is in a sample |
# | `"clocks"` | the clocks are still low |
# | `"cache"` | data come from the L2, where the real program would find them in memory |
# | `"queue"` | a clock is read while the GPU still works |
# | `"outliers"` | a few disturbed runs decide the result |


# %% cell="solution" id="faults"
def faults():
    """The line of `dishonest` on which each fault arises."""
    ### BEGIN SOLUTION
    return {"compile": 3, "clocks": 4, "cache": 8, "queue": 9, "outliers": 11}
    ### END SOLUTION


# %% cell="check" exercise="04_benchmarking/faults"
lab.check("04_benchmarking/faults")

# %% [markdown]
# ## 3 An honest one
#
# Write `honest(machine, call)`: the median time in seconds of one `call()` whose data come from memory, at full clocks,
# without the launch. The check runs it on simulated GPUs and allows 2 %.
#
# The launch stays out if the GPU is still busy when the host queues event, call, event: then nothing waits for the
# host. The flush does both, it empties the cache and keeps the GPU busy. So queue all samples without waiting in
# between, and read the events at the end.
#
# <details><summary>Hint 1</summary>Three parts: the first call; work until the clocks are up; samples.</details>
# <details><summary>Hint 2</summary>Warm up by the clock, not by the count: call and synchronize until 0.1 s have
# passed.</details>
# <details><summary>Hint 3</summary>A sample is flush, event, call, event. Take a hundred or more, synchronize once,
# then take the median of <code>machine.seconds(a, b)</code> over the pairs.</details>


# %% cell="solution" id="honest"
def honest(machine, call):
    """Median seconds of call() from a cold L2."""
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
from labutils import plots


def life_of_a_benchmark():
    gpu = SimulatedGPU(cold_s=100e-6, hot_s=40e-6)
    reported = honest(gpu, gpu.call) * 1e6
    fig = plots.figure(8, 3)
    axis = fig.subplots()
    for hot, label, marker in ((True, "from the L2", "x"), (False, "from memory", "o")):
        at = [k for k, run in enumerate(gpu.runs) if run.hot == hot]
        axis.plot(at, [gpu.runs[k].seconds * 1e6 for k in at], marker, ms=3, color=plots.PALETTE[5 * hot], label=label)
    axis.axhline(reported, color="black", lw=0.8, label=f"your result, {reported:.1f} µs")
    axis.set(xlabel="call", ylabel="µs", yscale="log", title="Every call of your benchmark on a simulated GPU")
    axis.legend(fontsize=8)
    fig.alt = f"Calls of a benchmark: slow clocks first, then hot runs, then cold ones; {reported:.1f} µs reported."
    return fig


life_of_a_benchmark()

# %% [markdown]
# | what you see | a common cause |
# |---|---|
# | every kernel takes some 10 µs | the host's clock, and no synchronize |
# | the first run of a cell is far slower | compiler, lazy loading of libraries, first allocation |
# | 110 % of the GPU's bandwidth | the L2: the data fit, and nothing flushed them |
# | the same kernel takes 20 % longer today | clocks: another job, heat, a power limit; compare in turns |
# | mean and median far apart | disturbed runs; report the median, and p20 to p80 beside it |
#
# ## 4 The real thing
#
# `lab.benchmark(fn, x, bytes=…)` works by these rules, with distinct copies of x in turn, and goes on until the median
# is known within 1 %. `lab.compare` takes two functions in turns (A B B A), so clocks and heat favour none. GeLU three
# ways: `naive` moves 22n elements (see `06_elementwise_triton`), the other two 2n. Predict the ratio first.

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
print(lab.compare(x, **contenders) or "Stored, H200, n = 2^27, fp32: naive 2.755 ms, built in 0.257, compiled 0.256.")

# %% [markdown]
# ## 5 Which kernel ran?
#
# A profile answers what a benchmark cannot: which kernels ran, in which order, with gaps or without. `lab.profile` is
# PyTorch's profiler, with the names explained; `tool="proton"` takes Triton's. Profiling slows the host: take times of
# kernels from it, not of the whole program.

# %%
a = torch.randn(4096 if gpu else 4, 4096 if gpu else 4, device=x.device, dtype=torch.float16)


def add_then_multiply(a):
    return (a + a) @ a


seen = lab.profile(add_then_multiply, a)
print(seen or "")
seen.timeline() if seen else None

# %% [markdown]
# Names from other people's profiles. Which operation (`"matmul"`, `"add"`, `"gelu"` …), on tensor cores or not, and
# for a matmul with which output tile?
#
# ```
# A  ampere_sgemm_128x64_tn
# B  sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x…
# C  nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTT
# D  void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(…)
# E  triton_poi_fused_gelu_0
# ```
#
# In NVIDIA's names s, h and t before `gemm` or after `nvjet_` are fp32, fp16 and bf16. Digits between such a letter
# and `gemm` are the shape of a tensor-core instruction (`s16816gemm`: 16×8×16); `warpgroup` stands for one too, and
# nvjet kernels always use them. `tn` tells which operand is transposed.


# %% cell="solution" id="read_names"
def read_names():
    """For each name: the operation, whether it uses tensor cores, (rows, columns) of its tile or None."""
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
# **Explain.** A colleague times a 30 µs kernel in a training loop with `time.time()` around it and `synchronize()` on
# both sides, and finds 48 µs; `lab.benchmark` says 30 µs cold and 22 µs hot. Who is right, and about what?
#
# ### BEGIN SOLUTION
# All are. With synchronize on both sides the GPU is idle when the launch begins, so launch and the wake-up of the
# waiting host are in the 48 µs: that is the end-to-end time of one lone call. In a loop that does not wait, launches
# overlap with work, and the GPU's own 30 µs count. Whether 30 or 22 describes the loop depends on what ran before: if
# the kernel's input was just written and fits into the L2, 22 is nearer.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** Add an interval to `honest` and stop when it is narrow. Let it take two calls in turns: the ratio is
# steadier than either time. Then `05_roofline`: what time would be good?
#
# **In practice** `triton.testing.do_bench` flushes and takes events as you did; Nsight Compute fixes the clocks and
# measures one launch many times over; Nsight Systems shows the whole program's timeline.
#
# **Reading.** [torch.profiler](https://docs.pytorch.org/docs/stable/profiler.html): what it records, and its costs.
# [Nsight Compute, profiling guide](https://docs.nvidia.com/nsight-compute/ProfilingGuide/): clock control and cache
# control.

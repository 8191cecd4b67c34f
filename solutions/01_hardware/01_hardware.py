# %% [markdown]
# # Size up a GPU
#
# **You will** work out what a GPU can do at most from its clock, its units and its memory, and compare that with what
# it does.
#
# **You will learn to**
# - say why GPUs look as they do, and name the parts of an SM and the levels of memory;
# - compute the peak of a pipe, and see through figures that count sparsity;
# - find the ridge point between memory-bound and compute-bound;
# - apply Little's law: how many bytes must be on their way, and how many warps that takes.
#
# **You need** `00_start`. About 60 minutes. Works without a GPU: what was measured on an H200 is then shown in its
# place.

# %% cell="setup"

# %% [markdown]
# ## 1 Why throughput
#
# Until about 2005 a new chip was a faster chip: smaller transistors switched faster at the same power. Then leakage
# ended that, and clocks have stayed at a few GHz since. Transistors still became more, so there is one way left to
# go faster: do more at the same time.
#
# A **CPU** spends them on *latency*: caches, branch prediction and reordering, so that one thread waits little. A
# **GPU** spends them on *throughput*: many simple units, and so many threads that some are always ready while others
# wait.
#
# Flynn sorted machines by streams: SISD (one instruction, one value: a scalar core), SIMD (one instruction, many
# values: vector units), MIMD (many of both: several cores; MISD is hardly ever built). A GPU is **SIMT**: you write a
# program for one thread, and the hardware runs 32 threads, a warp, in one instruction. It is SIMD with a mask that the
# hardware keeps for you; and with many SMs, MIMD around it.
#
# Below is one of the four schedulers of an SM. A warp works a little, then waits for memory. Find the number of warps
# from which on the scheduler never idles, for 400 cycles of latency and for 800.

# %%
lab.widgets.latency(warps=4, busy=40, latency=400)

# %% [markdown]
# ## 2 What one SM can do
#
# | in an SM of an H100 | how many | a clock, each |
# |---|---|---|
# | schedulers | 4 | issue one instruction of one warp |
# | FP32 units ("cores") | 128 | one multiply-add |
# | FP64 units, INT32 units | 64, 64 | one multiply-add |
# | tensor cores | 4 | 512 multiply-adds in FP16, 1024 in FP8 |
# | special functions (exp2, sin, 1/x) | 16 | one |
# | load and store units | 32 | one address |
# | registers | 65536 of 32 bits | shared out among the threads for as long as they live |
# | L1 cache and shared memory | 256 KB together | 128 bytes |
#
# **Predict.** A pipe of `units` units in each of `sms` SMs, of which each does `width` multiply-adds in a clock of
# `mhz` MHz: how many TFLOP/s is that at most? (A multiply-add counts as two operations.)


# %% cell="solution" id="peak"
def peak_tflops(sms, units, width, mhz):
    """Peak in TFLOP/s, 10^12 operations a second."""
    ### BEGIN SOLUTION
    return sms * units * width * 2 * mhz / 1e6
    ### END SOLUTION


# %% cell="check" exercise="01_hardware/peak"
lab.check("01_hardware/peak")

# %%
# What popular material claims, beside units times clock, beside the catalogue's dense peaks.
h100, b200 = lab.device.find("H100 SXM"), lab.device.find("B200")
rows = [
    ("H100 fp16", "247 × 4 by sparsity = 990", peak_tflops(132, 4, 512, 1830), h100.peak("fp16")),
    ("B200 fp16", "4500", peak_tflops(148, 4, 1024, 1850), b200.peak("fp16")),
    ("B200 fp8", "9000", peak_tflops(148, 4, 2048, 1850), b200.peak("fp8")),
    ("B200 fp4", "20000", peak_tflops(148, 4, 4096, 1850), b200.peak("fp4")),
]
print(f"{'TFLOP/s':10} {'claimed':>26} {'units × clock':>14} {'dense':>6}")
for name, claim, yours, dense in rows:
    print(f"{name:10} {claim:>26} {yours:14.0f} {dense:6.0f}")

# %% [markdown]
# The 990 of an H100 are dense: sparsity (two of every four weights zero, and known to be) would double them once more,
# to 1979. The figures claimed for a B200 do count sparsity (its FP4 differs from board to board). Divide a headline by
# two before you compare with it, and ask which clock it assumes: tensor peaks are quoted at 1830 MHz on an H100,
# although its boost clock is 1980.
#
# ## 3 Where the bytes live
#
# | level | who sees it | lives as long as | size on an H200 |
# |---|---|---|---|
# | registers | one thread (shuffles: its warp) | the thread | 256 KB an SM |
# | shared memory | the threads of a block (clusters: some blocks) | the block | up to 228 KB of the SM's 256 KB |
# | L1; constant and texture caches | the threads of an SM | the kernel | the rest of it |
# | L2 | the whole GPU | until it is pushed out | 50 MB |
# | HBM, "global memory" | the whole GPU, the host by copies | until it is freed | 141 GB |
# | host memory | CPU; the GPU by PCIe or C2C | until it is freed | as bought |
#
# **Predict.** How many bytes of memory are on the chip itself: registers, L1 with shared memory, and the L2?


# %% cell="solution" id="on_chip"
def on_chip_bytes(sms, l1_kb, l2_mb):
    """Bytes on the chip: 65536 registers of 32 bits and l1_kb KB in each SM, and one L2 of l2_mb MB (powers of two)."""
    ### BEGIN SOLUTION
    return sms * (65536 * 4 + l1_kb * 1024) + l2_mb * 2**20
    ### END SOLUTION


# %% cell="check" exercise="01_hardware/on_chip"
lab.check("01_hardware/on_chip")

# %% [markdown]
# On an H200 more than half of that is registers and L1: a GPU keeps its data next to its units, a CPU in shared caches.
#
# How long does a load take? One thread walks along a chain of addresses, so that no load can start before the last one
# has ended (a *pointer chase*). The table has the often quoted "registers 1 cycle, shared 20, L1 30, L2 200, HBM 400"
# beside the measurement.

# %%
print(lab.hardware.CHASE.split("__global__ void chase_shared")[0])
figures = lab.hardware.figures()  # measured here if there is a GPU, which takes some 10 s
print(figures)
lab.widgets.ladder(figures)

# %% [markdown]
# | why they differ | |
# |---|---|
# | registers | "1 cycle" is throughput: a new instruction every cycle. One that needs the result before waits longer |
# | shared, L1 | the way through the load units, the same for both; an L1 also has to compare tags |
# | L2 | it lies in two halves on large chips, one of them far away; a bigger chip has longer ways |
# | HBM | 400 is from smaller GPUs. Add the L2's miss, and the translation of an address nobody used recently |
#
# Cycles also hide the clock: in nanoseconds GPUs of ten years differ little. Bandwidth grew instead, and so did the
# number of loads that must be on their way.
#
# ## 4 The ridge
#
# A kernel that does few operations for each byte waits for memory, one that does many waits for its units. In between
# lies the *ridge point*: so many FLOPs for each byte keep both busy.


# %% cell="solution" id="ridge"
def ridge(tflops, gbs):
    """FLOPs for each byte at which a pipe of `tflops` TFLOP/s and a memory of `gbs` GB/s take equally long."""
    ### BEGIN SOLUTION
    return tflops * 1000 / gbs
    ### END SOLUTION


# %% cell="check" exercise="01_hardware/ridge"
lab.check("01_hardware/ridge")

# %%
print(f"{'':14} {'SMs or alike':>18} {'GB/s':>6} {'cache':>7} {'ridge: fp32':>12} {'fp16':>6} {'fp8':>6}")
table = [(g.name, str(g.sms), g.bandwidth_gbs, g.l2_mb, g.fp32_tflops, g.peak("fp16"), g.peak("fp8"))
         for g in map(lab.device.find, ("T4", "A100 80GB", "H100 SXM", "H200", "B200"))]  # fmt: skip
table += [(o["name"], o["units"], o["bandwidth_gbs"], o["cache_mb"], o.get("fp32_tflops"), o["fp16_tflops"],
           o["fp8_tflops"]) for o in lab.device.others()]  # fmt: skip
for name, units, gbs, cache, *peaks in table:
    points = [f"{ridge(p, gbs):.0f}" if p else "–" for p in peaks]
    print(f"{name:14} {units:>18} {gbs:6.0f} {cache:4.0f} MB {points[0]:>12} {points[1]:>6} {points[2]:>6}")

# %% [markdown]
# | what a check says | a common cause |
# |---|---|
# | "the units do not cancel" | tera over giga is a thousand |
# | "powers of ten", "powers of two" | rates count in powers of ten, sizes of memories in powers of two |
# | "two operations" | a multiply-add is one instruction and two FLOPs |
# | "round up" | what fits partly still takes a whole warp, block or wave |
#
# ## 5 Little's law
#
# A shop that 2 people enter each minute, and where each stays 10 minutes, has 20 people in it. So has a memory: to
# deliver `gbs` GB/s when each load takes `latency_ns` ns, it must have *gbs · latency* bytes on their way at all times.
#
# How many warps does each SM need for that, if every lane of a warp has one load of `bytes_per_lane` bytes on its way?
#
# <details><summary>Hint 1</summary>A GB/s is a byte in a nanosecond.</details>
# <details><summary>Hint 2</summary>All SMs together must have those bytes on their way; a warp brings 32
# lanes.</details>
# <details><summary>Hint 3</summary>Round up, in whole numbers: <code>-(-a // b)</code>.</details>


# %% cell="solution" id="little"
def bytes_in_flight(gbs, latency_ns):
    """Bytes on their way at any time."""
    ### BEGIN SOLUTION
    return gbs * latency_ns
    ### END SOLUTION


def warps_needed(gbs, latency_ns, sms, bytes_per_lane):
    """Warps that each of `sms` SMs needs to reach this bandwidth."""
    ### BEGIN SOLUTION
    return -(-gbs * latency_ns // (sms * 32 * bytes_per_lane))
    ### END SOLUTION


# %% cell="check" exercise="01_hardware/in_flight"
lab.check("01_hardware/in_flight")

# %% cell="check" exercise="01_hardware/warps_needed"
lab.check("01_hardware/warps_needed")

# %%
from labutils import plots


def warps_by_width(latency_ns):
    picture = plots.figure(6.4, 3)
    axis = picture.subplots()
    for k, name in enumerate(("T4", "A100 80GB", "H200", "B200")):
        gpu = lab.device.find(name)
        needed = [warps_needed(int(gpu.bandwidth_gbs), latency_ns, gpu.sms, b) for b in (4, 8, 16, 32)]
        axis.plot(range(4), needed, "osD^"[k] + ("-", "--", "-.", ":")[k], color=plots.PALETTE[k], label=name)
    axis.axhline(64, color="black", lw=1)
    axis.text(3.05, 64, "64: all that an\nSM of an H200 holds", va="center", fontsize=9)
    axis.set(xticks=range(4), xticklabels=["4", "8", "16", "2 × 16"], xlabel="bytes of a lane on their way",
             ylabel="warps an SM needs", xlim=(-0.2, 3.8))  # fmt: skip
    axis.legend()
    picture.alt = f"Warps for the full bandwidth at {latency_ns} ns: with floats more than an SM of an H200 holds."
    return picture


plots.show(warps_by_width, round(figures.latency_ns("HBM") or 600))

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** The H200 has the same SMs as the H100, and memory that is 1.4 times as fast. Which of the kernels that
# you know become faster, by how much, and what happens to the ridge? Does a kernel need more warps to use it?
#
# ### BEGIN SOLUTION
# Memory-bound kernels (elementwise work, sums, softmax) become up to 1.4 times as fast; a large matmul does not, its
# units are the limit. The ridge moves left, from 295 to 206 FLOP/byte in fp16: more kernels are compute-bound. By
# Little's law 1.4 times as many bytes must be on their way at the same latency: more warps, or more bytes for each
# lane.
# ### END SOLUTION

# %% [markdown]
# **What the picture says.** On a large GPU a kernel that loads one float a thread cannot reach the memory's bandwidth,
# even with every place for a warp taken. Wider loads (`float4`), several loads before the first use, or copies that
# need no registers at all (`cp.async`, TMA) are how one gets there; `03_occupancy` measures it.
#
# **How it came about.** Every generation removed the bottleneck of the one before:
#
# | | what it brought | what had been in the way |
# |---|---|---|
# | Kepler 2012 | many slower cores, shuffles, 32 work queues | power; exchange through memory; one queue |
# | Maxwell 2014 | SM in four quarters, a scheduler each | control logic that grew with the SM |
# | Pascal 2016 | HBM, NVLink, fast FP16 | memory bandwidth; PCIe |
# | Volta 2017 | tensor cores; a program counter for each thread | one multiply-add at a time; locks in a warp |
# | Turing 2018 | integers beside floats; INT8 tensor cores | address arithmetic in the way of mathematics |
# | Ampere 2020 | TF32, BF16; `cp.async`; 40 MB of L2 | loads that had to pass through registers |
# | Hopper 2022 | TMA, `wgmma`, clusters, FP8 | threads that did nothing but compute addresses |
# | Blackwell 2024 | tensor memory, FP4 with block scales, two dies | accumulators that filled the registers |
#
# **Between chips**, both directions together: PCIe 5 ×16 128 GB/s; NVLink 600 (A100), 900 (H100), 1800 GB/s (B200);
# C2C, between a Grace CPU and its GPU, 900 GB/s. All are far below the GPU's own memory: `23_many_gpus`.
#
# **Next levels.** `lab.widgets.ladder(figures, "bandwidth")` shows what all SMs together can read from each level: by
# which factor does a byte become cheaper, level by level? `lab.device.catalogue()` holds every figure with its source.
#
# **Reading.** [Luo and others, Benchmarking the Hopper architecture](https://arxiv.org/abs/2402.13499): the same
# measurements, taken further. [CUDA Programming Guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/),
# "Hardware Implementation": SIMT in the vendor's words.

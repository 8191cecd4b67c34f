# %% [markdown]
# # Size up a GPU
#
# **You will** compute a GPU's limits from its [clock rate](../glossary.md#clock-rate), its arithmetic units and its
# memory, and compare these limits with measurements.
#
# **You will learn to**
# - explain why GPUs are built as they are, and name the parts of an [SM](../glossary.md#sm) and the levels of memory;
# - compute the [peak](../glossary.md#peak) of a [pipe](../glossary.md#pipe) (all arithmetic units of one kind), and
#   recognize claimed peaks that assume [sparsity](../glossary.md#sparsity);
# - compute the [ridge point](../glossary.md#ridge-point), which separates [memory-bound](../glossary.md#memory-bound)
#   from [compute-bound](../glossary.md#compute-bound) kernels;
# - compute by [Little's law](../glossary.md#littles-law) how many bytes must be [in flight](../glossary.md#in-flight),
#   and how many [warps](../glossary.md#warp) are necessary for that.
#
# **You need** `00_start`. About 60 minutes. Works without a GPU: the notebook then shows measurements of an
# [H200](../glossary.md#hopper), a data-center GPU.
#
# ## 1 Why throughput
#
# Until about 2005, smaller transistors switched faster, and a chip of the same size needed no more power. Then leakage
# (current through transistors that are off) ended this trend, and clock rates have stayed at a few GHz. Transistor
# counts kept growing, so one way to get faster remained: do more at once.
#
# A **CPU** spends its transistors on low [latency](../glossary.md#latency): [caches](../glossary.md#cache), [branch
# prediction](../glossary.md#branch-prediction) and [out-of-order execution](../glossary.md#out-of-order-execution) make
# one [thread](../glossary.md#thread) wait less. A **GPU** spends its transistors on
# [throughput](../glossary.md#throughput): it has many simple arithmetic units, and enough threads that some run while
# others wait.
#
# Flynn classified machines by two questions. Do they execute a single instruction at a time, or multiple instructions
# (SI, MI)? On single or multiple data (SD, MD)?
#
# - SISD: a simple CPU core;
# - SIMD: the vector unit of a CPU core;
# - MIMD: several cores;
# - MISD: hardly ever built.
#
# A GPU is [SIMT](../glossary.md#simt) (single instruction, multiple threads): you write code for one thread, and the
# hardware executes 32 threads with one instruction. These 32 threads are a warp, and each thread is a
# [lane](../glossary.md#lane) of the warp. SIMT is a kind of SIMD in which the hardware keeps track of the [active
# lanes](../glossary.md#active-lanes): the lanes that execute the current instruction. A GPU consists of many SMs
# (streaming multiprocessors). Different SMs execute different instructions, so all SMs together are MIMD.
#
# An SM has four [schedulers](../glossary.md#scheduler), which start the instructions of warps. The picture below shows
# one scheduler. Each warp works for 40 [cycles](../glossary.md#cycle), then waits for memory. Move the sliders: how
# many warps keep the scheduler always busy if a load takes 400 cycles? How many if it takes 800?

# %% cell="setup"

# %%
lab.widgets.latency(warps=4, busy=40, latency=400)

# %% [markdown]
# ## 2 What one SM can do
#
# | part of an SM of an H100 | count or size | work of each unit per cycle |
# |---|---|---|
# | schedulers | {claim: h100_schedulers} | issue one instruction of one warp |
# | [FP32](../glossary.md#fp32) units | {claim: h100_cores} | one multiply-add |
# | FP64 units, INT32 units | {claim: h100_fp64_int32} | one multiply-add, of 64-bit floats or of 32-bit integers |
# | tensor cores | {claim: h100_tensor_cores} | {claim: fma_fp16} multiply-adds in FP16, {claim: fma_fp8} in FP8 |
# | [special function units](../glossary.md#special-function-unit) (exp2, sin, 1/x) | {claim: h100_sfus} | one result |
# | load and store units | {claim: h100_load_units} | the load or store of one lane |
# | [registers](../glossary.md#register) | {claim: sm_registers} | – |
# | L1 cache and shared memory (one memory for both) | {claim: h100_l1} | {claim: l1_bytes_per_cycle} read or written |
#
# FP32 units are also called [CUDA cores](../glossary.md#cuda-core). [Tensor cores](../glossary.md#tensor-core) multiply
# small matrices. [FP16](../glossary.md#fp16) and [FP8](../glossary.md#fp8) are number formats of 16 and 8 bits. A
# multiply-add is also called FMA ([fused multiply-add](../glossary.md#fma)).
#
# **Predict.** A pipe has `units` identical units in each of `sms` SMs. Each unit does `width` multiply-adds per cycle,
# at a clock rate of `mhz` MHz. Write `peak_tflops`: what is the peak of the pipe in TFLOP/s? Count a multiply-add as
# two [FLOPs](../glossary.md#flop).


# %% cell="solution" id="peak"
def peak_tflops(sms, units, width, mhz):
    """Return the peak in TFLOP/s. 1 TFLOP/s is 10^12 FLOPs per second."""
    ### BEGIN SOLUTION
    return sms * units * width * 2 * mhz / 1e6
    ### END SOLUTION


# %% cell="check" exercise="01_hardware/peak"
lab.check("01_hardware/peak")

# %% [markdown]
# ## 3 Where data are stored
#
# | level | visible to | data exist until | size on an H200 |
# |---|---|---|---|
# | registers | one thread; its warp through shuffles | the thread ends | {claim: h200_register_file} |
# | shared memory | a block; also its cluster | the block ends | up to {claim: h200_shared} of {claim: h100_l1} per SM |
# | L1 cache | the threads of an SM | the kernel ends | the rest of these {claim: h100_l1} |
# | [L2 cache](../glossary.md#l2-cache) | the whole GPU | other data replace them | {claim: h200_l2} |
# | HBM, used as global memory | the whole GPU; the host through copies | they are freed | {claim: h200_hbm} |
# | [host](../glossary.md#host) memory | the CPU; the GPU over PCIe | they are freed | depends on the machine |
#
# A [cluster](../glossary.md#cluster) is a group of [blocks](../glossary.md#block). [Shuffles](../glossary.md#shuffle)
# exchange registers between the lanes of a warp. [PCIe](../glossary.md#pcie) links host and GPU. Each SM has its own
# registers, [L1](../glossary.md#l1-cache) and [shared memory](../glossary.md#shared-memory), and a small cache for
# [constant memory](../glossary.md#constant-memory). [Global memory](../glossary.md#global-memory) is the GPU's main
# memory: [HBM](../glossary.md#hbm) on data-center GPUs.
#
# In a [pointer chase](../glossary.md#pointer-chase) one thread follows a chain of addresses, so each load must wait for
# the previous one. After the next check, a cell prints each level's measured latency in cycles, and (as `claimed`) the
# latency that is often quoted: {claim: quoted_latencies}.
#
# **Predict.** Write `on_chip_bytes`: how many bytes do all on-chip memories hold together? On-chip memories are the
# registers, L1 (which includes shared memory) and L2.


# %% cell="solution" id="on_chip"
def on_chip_bytes(sms, l1_kb, l2_mb):
    """Return the bytes of all on-chip memories. 1 KB is 2^10 bytes, and 1 MB is 2^20 bytes.

    Each of `sms` SMs has 65536 registers of 32 bits and `l1_kb` KB of L1. The L2 has `l2_mb` MB.
    """
    ### BEGIN SOLUTION
    return sms * (65536 * 4 + l1_kb * 1024) + l2_mb * 2**20
    ### END SOLUTION


# %% cell="check" exercise="01_hardware/on_chip"
lab.check("01_hardware/on_chip")

# %%
print(lab.hardware.CHASE.split("__global__ void chase_shared")[0])  # the kernel of the pointer chase
figures = lab.hardware.figures()  # measured here if there is a GPU (about 10 s); otherwise stored
print(figures)
lab.widgets.ladder(figures)

# %% [markdown]
# On an H200, registers and L1 hold more than half of the on-chip bytes. So most of a GPU's on-chip memory is next to
# its arithmetic units, while most of a CPU's on-chip memory is usually in caches that several cores share.
#
# | level | why the measured latency differs from the quoted one |
# |---|---|
# | registers | the quoted 1 cycle is for independent instructions; a dependent instruction waits longer |
# | shared memory, L1 | both use the same load units, so their times are similar; L1 must also look up the address |
# | L2 | large chips have longer wires; the L2 has two halves, and each SM is far from one of them |
# | HBM | the quoted 400 cycles come from smaller GPUs; loads also wait for the L2, and often for address translation |
#
# A load takes more cycles on newer GPUs, but clock rates rose too: in nanoseconds, the latencies of GPUs ten years
# apart differ little. [Bandwidth](../glossary.md#bandwidth) grew, and so did the number of loads that must be in
# flight.
#
# ## 4 The ridge
#
# A [kernel](../glossary.md#kernel) with few operations per byte waits for memory. A kernel with many operations per
# byte waits for the arithmetic units. The *ridge point* is the number of FLOPs per byte at which both memory and
# arithmetic units are always busy. Write `ridge`, which returns this number.


# %% cell="solution" id="ridge"
def ridge(tflops, gbs):
    """Return the FLOPs per byte at which a pipe of `tflops` TFLOP/s and a memory of `gbs` GB/s take equally long."""
    ### BEGIN SOLUTION
    return tflops * 1000 / gbs
    ### END SOLUTION


# %% cell="check" exercise="01_hardware/ridge"
lab.check("01_hardware/ridge")

# %% [markdown]
# This table is for all exercises of this unit:
#
# | the check reports | common cause |
# |---|---|
# | "the units do not cancel" | the factor of 1000 between tera and giga is missing or inverted |
# | "powers of ten", "powers of two" | powers of two were used for a rate (GB/s), or powers of ten for KB and MB |
# | "two operations" | a multiply-add was counted as one FLOP instead of two |
# | "round up" | a partly used warp was not counted as a whole warp |
#
# ## 5 Little's law
#
# If 2 people per minute enter a shop and each stays 10 minutes, 2 · 10 = 20 people are inside. Memory works the same
# way: if memory delivers `gbs` GB/s and each load takes `latency_ns` ns, *bandwidth · latency* bytes are in flight
# (requested, but not yet delivered).
#
# Write `bytes_in_flight`, which returns this number. Then write `warps_needed`. Suppose that every lane of a warp has
# one load of `bytes_per_lane` bytes in flight. How many warps must run on each SM so that *bandwidth · latency* bytes
# are in flight?
#
# <details><summary>Hint 1 for in_flight</summary>One GB/s is one byte per nanosecond.</details>
# <details><summary>Hint 1 for warps_needed</summary>All SMs together must have these bytes in flight. A warp
# contributes the bytes of its 32 lanes.</details>
# <details><summary>Hint 2 for warps_needed</summary>Round up, in integers: <code>-(-a // b)</code>.</details>


# %% cell="solution" id="little"
def bytes_in_flight(gbs, latency_ns):
    """Return the bytes that must be in flight to read `gbs` GB/s at a latency of `latency_ns` ns."""
    ### BEGIN SOLUTION
    return gbs * latency_ns
    ### END SOLUTION


def warps_needed(gbs, latency_ns, sms, bytes_per_lane):
    """Return the warps that each of `sms` SMs needs for `gbs` GB/s, with `bytes_per_lane` bytes in flight per lane."""
    ### BEGIN SOLUTION
    return -(-gbs * latency_ns // (sms * 32 * bytes_per_lane))
    ### END SOLUTION


# %% cell="check" exercise="01_hardware/in_flight"
lab.check("01_hardware/in_flight")

# %% cell="check" exercise="01_hardware/warps_needed"
lab.check("01_hardware/warps_needed")

# %%
lab.claims("01_hardware")  # a two-minute quiz: predict each number, then compare
# Your formulas, applied to real GPUs.
lab.peaks.headlines(peak_tflops)
lab.peaks.ridges(ridge)
lab.plots.show(lab.peaks.warps_by_width, warps_needed, round(figures.latency_ns("HBM") or 600))

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** The H200 has the same SMs as the H100, but its memory has {claim: h200_over_h100} times the bandwidth.
# Which kinds of kernels become faster, and by how much? What happens to the ridge point? Does a kernel need more warps
# to reach the higher bandwidth?
#
# ### BEGIN SOLUTION
# Memory-bound kernels (such as adding vectors, sums, softmax) become up to {claim: h200_over_h100} times as fast; a
# large matmul does not, because its arithmetic units are the limit. The ridge of fp16 moves from
# {claim: h100_fp16_ridge} down to {claim: h200_fp16_ridge} FLOP/byte, so more kernels are compute-bound. By Little's
# law, {claim: h200_over_h100} times as many bytes must be in flight at the same latency. So a kernel needs more warps,
# or more bytes per lane.
# ### END SOLUTION

# %% [markdown]
# **What the last code cell shows.** The first table has peaks that are often claimed, next to the peaks that your
# formula gives. The {claim: h100_fp16_peak} TFLOP/s claimed for an H100 are a *dense* peak, without sparsity. The
# factor 4 in the table is not a factor for sparsity: it is the number of tensor cores per SM. With sparsity, two of
# every four elements of a matrix are zeros that the tensor cores skip, which doubles the peak to
# {claim: h100_sparse_peak} TFLOP/s. The figures claimed for a B200 assume sparsity, so divide them by two. (The peak of
# 4-bit FP4 differs between B200 boards.) Also ask which clock rate a figure assumes. NVIDIA quotes an H100's
# tensor-core peaks at {claim: h100_tensor_clock}, although its highest clock rate (boost clock) is
# {claim: h100_boost_clock} MHz.
#
# The picture shows that on a large GPU, one float in flight per thread is not enough to reach the memory's bandwidth,
# even with as many warps as an SM holds. Three things help: wider loads (`float4`, four floats), several loads before
# the first use of a value, and copies that bypass registers ([`cp.async`](../glossary.md#async-copy),
# [TMA](../glossary.md#tma)).
#
# **History.** Every generation of NVIDIA GPUs removed a bottleneck of the previous one. The table gives the first
# [compute capability](../glossary.md#compute-capability) of each generation; sm_90 stands for 9.0. Later units explain
# [TF32](../glossary.md#tf32), [BF16](../glossary.md#bf16), [`wgmma`](../glossary.md#wgmma), [tensor
# memory](../glossary.md#tensor-memory) and [block scales](../glossary.md#block-scale).
#
# | generation | what it added | bottleneck that it removed |
# |---|---|---|
# | Kepler 2012, sm_30 | many slower cores, shuffles, 32 launch queues | power; exchange of data via memory; one queue |
# | Maxwell 2014, sm_50 | an SM in four quarters, each with a scheduler | control logic that grew with the SM |
# | Pascal 2016, sm_60 | HBM, NVLink, fast FP16 | bandwidth of memory and of PCIe |
# | Volta 2017, sm_70 | tensor cores; integer units; a program counter per thread | FMA rate; deadlocks between lanes |
# | Turing 2018, sm_75 | tensor cores for 8-bit integers | trained networks needed 16-bit arithmetic |
# | Ampere 2020, sm_80 | TF32, BF16; `cp.async`; {claim: a100_l2} of L2 | loads that had to pass through registers |
# | Hopper 2022, sm_90 | TMA, `wgmma`, clusters, FP8 | threads that only computed addresses |
# | Blackwell 2024, sm_100 | tensor memory, FP4 with block scales, two dies | accumulators that filled the registers |
#
# **Links between chips** have these bandwidths (the sum of both directions):
#
# - PCIe 5 ×16: {claim: pcie5};
# - [NVLink](../glossary.md#nvlink): {claim: nvlink};
# - NVLink-C2C between a Grace CPU and its GPU: {claim: c2c}.
#
# All these links are far slower than the GPUs' memory.
#
# **Next levels.** `lab.widgets.ladder(figures, "bandwidth")` shows how many bytes per second all SMs together can read
# from each level. By what factor does the bandwidth of each level exceed that of the next? `lab.device.catalogue()`
# returns the figures of every GPU, and their sources.
#
# **Reading.** [Luo and others, Benchmarking the Hopper architecture](https://arxiv.org/abs/2402.13499): the same
# measurements in more depth. [CUDA Programming Guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/),
# "Hardware Implementation": NVIDIA's description of SIMT.

# %% [markdown]
# # Calculate occupancy, and know when it matters
#
# **You will** write functions that compute how many [blocks](../glossary.md#block) of a [kernel](../glossary.md#kernel)
# an [SM](../glossary.md#sm) holds, apply them to compiled kernels, and find out when a half-empty SM is faster.
#
# **You will learn to**
# - name the four limits on the blocks that an SM holds at a time (its resident blocks), and the units in which
#   [registers](../glossary.md#register) and [shared memory](../glossary.md#shared-memory) are allocated;
# - read how many registers, [spills](../glossary.md#spill) and bytes of shared memory a kernel uses on any GPU, without
#   having that GPU;
# - limit a kernel's registers with `__launch_bounds__` and `__maxnreg__`, and see what the limit costs;
# - decide by [Little's law](../glossary.md#littles-law) whether more [occupancy](../glossary.md#occupancy) would help.
#
# **You need** `01_hardware`, `02_execution_model`. About 60 minutes. Works without a GPU; only times need one.
#
# ## 1 Four limits
#
# An SM accepts blocks until one of the resources below runs out. Occupancy is the share of the SM's
# [warp](../glossary.md#warp) slots that are used.
#
# | resource | amount per SM of an H100 | how it is allocated |
# |---|---|---|
# | warp slots | {claim: h100_warp_slots} | per block, for all its warps at once |
# | block slots | {claim: h100_block_slots} | one per block |
# | registers | {claim: h100_registers} | per warp, in multiples of {claim: register_unit}; a scheduler has a quarter |
# | shared memory | {claim: h100_shared_sm} | per block, in multiples of {claim: shared_unit} |
#
# From compute capability 8.0 on, the system reserves {claim: shared_reserved} of shared memory per block. A block keeps
# its resources until all its [threads](../glossary.md#thread) end. Move the sliders before you calculate:
#
# - Blocks of 128 threads with 160 registers each fill 12 of 64 warp slots, an occupancy of {claim: few_warps}.
# - Blocks of 256 threads with 40 registers each, and 32 KB of shared memory per block, reach {claim: many_warps}.
#
# What is the largest register count at which an SM holds a fourth block of the first kernel?

# %% cell="setup"

# %%
lab.widgets.occupancy(threads=128, registers=160, gpu="H100 SXM")

# %% [markdown]
# ## 2 Registers
#
# How many blocks do the registers alone allow? Start from the warp. Compute how many registers one warp is allocated,
# then how many warps fit into the quarter of one [scheduler](../glossary.md#scheduler). Four times as many fit into the
# SM. Last, compute how many blocks these warps make. A partly filled warp is allocated as many registers as a full one.
#
# `limits` holds the catalogue's figures for a [compute capability](../glossary.md#compute-capability), the version of a
# GPU's hardware: `limits.registers`, `limits.register_unit`, `limits.max_warps`, and so on. Your functions get the
# capability as one number: 90 stands for 9.0.
#
# <details><summary>Hint 1</summary>Rounding <code>a</code> up to a multiple of <code>b</code> is <code>-(-a // b) *
# b</code>.</details>
# <details><summary>Hint 2</summary>160 registers × 32 lanes are 5120, already a multiple of 256. A quarter has 16384
# registers, so three warps fit into it, and twelve into the SM.</details>
# <details><summary>Hint 3</summary>Divide by the warps per block only at the end, because a block spreads over all four
# schedulers.</details>


# %% cell="solution" id="registers"
def blocks_by_registers(threads, registers, capability):
    """Blocks of `threads` threads with `registers` registers each that the registers of an SM allow."""
    limits = lab.device.limits_for(divmod(capability, 10))
    ### BEGIN SOLUTION
    warps = -(-threads // 32)
    per_warp = -(-registers * 32 // limits.register_unit) * limits.register_unit
    resident_warps = limits.registers // 4 // per_warp * 4
    return resident_warps // warps
    ### END SOLUTION


# %% cell="check" exercise="03_occupancy/registers"
lab.check("03_occupancy/registers")

# %% [markdown]
# ## 3 Shared memory
#
# A block is allocated the bytes that it requests plus `limits.shared_reserved_kb` KB for the system. Their sum is
# rounded up to a multiple of `limits.shared_unit_bytes`. The SM has `limits.shared_per_sm_kb` KB in total. A block that
# requests more than `limits.shared_per_block_kb` KB cannot run; return 0 for it. Never return more than
# `limits.max_blocks`. (On a T4 the system reserves nothing. What if the kernel requests nothing either?)


# %% cell="solution" id="shared_memory"
def blocks_by_shared(shared_bytes, capability):
    """Blocks with `shared_bytes` bytes of shared memory each that an SM can hold, at most limits.max_blocks."""
    limits = lab.device.limits_for(divmod(capability, 10))
    ### BEGIN SOLUTION
    if shared_bytes > limits.shared_per_block_kb * 1024:
        return 0
    unit = limits.shared_unit_bytes
    taken = -(-(shared_bytes + limits.shared_reserved_kb * 1024) // unit) * unit
    if taken == 0:
        return limits.max_blocks
    return min(limits.max_blocks, limits.shared_per_sm_kb * 1024 // taken)
    ### END SOLUTION


# %% cell="check" exercise="03_occupancy/shared_memory"
lab.check("03_occupancy/shared_memory")

# %% [markdown]
# ## 4 All four limits
#
# The scarcest resource decides. Hidden cases use seven compute capabilities. The reference result follows the
# arithmetic of NVIDIA's `cuda_occupancy.h`. On a GPU, it equals what the driver returns.


# %% cell="solution" id="calculator"
def occupancy(threads, registers, shared_bytes, capability):
    """Resident warps over the warps that an SM can hold, between 0 and 1."""
    limits = lab.device.limits_for(divmod(capability, 10))
    ### BEGIN SOLUTION
    warps = -(-threads // 32)
    blocks = min(
        limits.max_warps // warps,
        limits.max_blocks,
        blocks_by_registers(threads, registers, capability),
        blocks_by_shared(shared_bytes, capability),
    )
    return blocks * warps / limits.max_warps
    ### END SOLUTION


# %% cell="check" exercise="03_occupancy/calculator"
lab.check("03_occupancy/calculator")

# %% [markdown]
# | the check reports | common cause |
# |---|---|
# | "in units of" | registers are rounded up per warp, shared memory per block |
# | "one of four schedulers" | 65536 registers are four times 16384, and a warp cannot use two quarters |
# | "as much as a full one" | threads were divided by 32 without rounding up |
# | "allow fewer blocks than that" | one of the four limits is missing from the minimum |
#
# ## 5 What compilers use, and how to limit it
#
# You do not choose registers; the compiler does. `lab.inspect` compiles a kernel for any GPU and reports what the
# kernel uses. The kernel printed below keeps an 8 × 8 [tile](../glossary.md#tile) of a [matmul](../glossary.md#matmul)
# in each thread. `__launch_bounds__(threads, blocks)` ([launch bounds](../glossary.md#launch-bounds)) declares that a
# block has at most `threads` threads. It also requests that `blocks` blocks fit on an SM. `__maxnreg__(n)` sets the
# maximum number of registers directly. (In Triton, pass `maxnreg=` to the [launch](../glossary.md#launch).) Values that
# do not fit are *spilled* to [local memory](../glossary.md#local-memory).
#
# **Predict.** `blocks` blocks of `threads` threads must fit on an SM. How many registers may a thread have at most?
# This is the inverse of `blocks_by_registers`. The result is at most `limits.registers_per_thread`.
#
# <details><summary>Hint 1</summary>How many warps must each of the four schedulers hold? Round up.</details>
# <details><summary>Hint 2</summary>Divide a quarter of the registers among these warps, and round down to a multiple of
# <code>limits.register_unit</code>.</details>


# %% cell="solution" id="budget"
def register_budget(threads, blocks, capability):
    """The most registers a thread may have so that `blocks` blocks of `threads` threads fit on an SM."""
    limits = lab.device.limits_for(divmod(capability, 10))
    ### BEGIN SOLUTION
    warps = -(-threads // 32)
    warps_of_a_scheduler = -(-blocks * warps // 4)
    per_warp = limits.registers // 4 // warps_of_a_scheduler // limits.register_unit * limits.register_unit
    return min(limits.registers_per_thread, per_warp // 32)
    ### END SOLUTION


# %% cell="check" exercise="03_occupancy/budget"
lab.check("03_occupancy/budget")

# %%
print(lab.registers.TILE)
lab.registers.bounds(occupancy)
lab.registers.budgets(occupancy, register_budget)
lab.plots.show(lab.registers.staircase, occupancy)

# %% [markdown]
# From three blocks per SM on, the compiler uses every register of the budget and spills the values that do not fit.
# Each thread stores and reloads every spilled byte through the L1. At full occupancy, this kernel would keep half of
# its tile in local memory.
#
# ## 6 When low occupancy is right
#
# Occupancy is only a means to hide [latency](../glossary.md#latency). By Little's law, what counts is *warps × bytes
# [in flight](../glossary.md#in-flight) per warp*. A copy kernel shows this. Each of its threads has 1, 2 or 4 loads of
# 16 bytes in flight. Its blocks allocate shared memory that they do not use, so that fewer of them fit on an SM.
# **Predict** first: how much occupancy does the kernel need to reach the full [bandwidth](../glossary.md#bandwidth)
# with 1, 2 and 4 loads?

# %%
print(lab.hardware.COPY)
figures = lab.hardware.figures()  # measured here if there is a GPU; otherwise stored figures of the GPU named
lab.plots.show(lab.registers.throttled_copy, figures)

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Fast matmuls run at an occupancy of {claim: matmul_occupancy}. An [elementwise
# kernel](../glossary.md#elementwise-kernel) with one load per thread needs the highest occupancy it can get. Why is
# each of these right? What would you try first for a kernel that waits for memory at an occupancy of 25 %?
#
# ### BEGIN SOLUTION
# A matmul uses registers for large tiles. They give more reuse, so it needs fewer loads. Each thread also has many
# independent multiply-adds and loads, so few warps keep the arithmetic units busy. An elementwise kernel has no reuse
# and few bytes in flight per thread; only more warps (or more and wider loads per thread) put enough bytes in flight.
# At 25 %, first let each thread issue several loads before it uses the first result. Then find which resource limits
# the blocks. A smaller tile, or a register limit that causes no spills, may allow another block.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** `lab.widgets.occupancy(kernel)` starts from what one of your own kernels uses. Try it with a kernel
# of `02_execution_model`. Move the tile of `tile_kernel` to shared memory: which of the four limits decides then?
#
# **In practice** a [profiler](../glossary.md#profiler) also shows *achieved* occupancy, the average over time. Achieved
# occupancy is lower than the calculated one if blocks are short, or if the [grid](../glossary.md#grid) has a [tail
# effect](../glossary.md#tail-effect). [Autotuning](../glossary.md#autotuning) tries several launch bounds and tile
# sizes instead of calculating occupancy.
#
# **Reading.** [Volkov, Better performance at lower
# occupancy](https://www.nvidia.com/content/GTC-2010/pdfs/2238_GTC2010.pdf): its numbers are old, but its argument is
# still valid. [CUDA Best Practices Guide](https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/), "Occupancy".

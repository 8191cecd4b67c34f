# %% [markdown]
# # Calculate occupancy, and know when it matters
#
# **You will** write functions that compute how many [blocks](../glossary.md#block) an [SM](../glossary.md#sm) can hold,
# apply these functions to compiled [kernels](../glossary.md#kernel), and find out when a half-empty SM is faster than a
# full one.
#
# **You will learn to**
# - name the four limits on the number of *resident* blocks (the blocks that an SM holds at a time), and round
#   [registers](../glossary.md#register) and [shared memory](../glossary.md#shared-memory) up to the units in which they
#   are allocated;
# - find out how many registers and bytes of shared memory a kernel uses, and how many bytes it
#   [spills](../glossary.md#spill), even for a GPU that you do not have;
# - limit a kernel's registers with `__launch_bounds__` and `__maxnreg__`, and see what the limit costs;
# - decide by [Little's law](../glossary.md#littles-law) whether more [occupancy](../glossary.md#occupancy) would help.
#
# **You need** `01_hardware`, `02_execution_model`. About 60 minutes. You need a GPU only to measure times.
#
# ## 1 Four limits
#
# An SM accepts blocks until one of the resources below is too small for another block. A [warp](../glossary.md#warp)
# slot is a place for one resident warp. Occupancy is the share of the warp slots that are used.
#
# | resource | amount per SM of an H100 | how it is allocated |
# |---|---|---|
# | warp slots | {claim: h100_warp_slots} | one per warp; a block needs slots for all its warps at once |
# | block slots | {claim: h100_block_slots} | one per block |
# | registers | {claim: h100_registers}, a quarter per scheduler | per warp, in multiples of {claim: register_unit} |
# | shared memory | {claim: h100_shared_sm} | per block, in multiples of {claim: shared_unit} |
#
# On an H100, CUDA reserves {claim: shared_reserved} of shared memory per block for itself. A block keeps its resources
# until all its [threads](../glossary.md#thread) end. Set the sliders of the picture below to each of the next two
# examples. Which resource allows the fewest blocks? (In one example, two resources do.)
#
# - Blocks of 128 threads with 160 registers per thread fill 12 of 64 warp slots: 12 / 64 = {claim: few_warps}
#   occupancy.
# - Blocks of 256 threads with 40 registers per thread and 32 KB of shared memory fill 48 warp slots:
#   {claim: many_warps} occupancy.
#
# In the first example, an SM holds three blocks. What is the largest number of registers per thread at which a fourth
# block fits?

# %% cell="setup"

# %%
lab.widgets.occupancy(threads=128, registers=160, gpu="H100 SXM")

# %% [markdown]
# ## 2 Registers
#
# Write `blocks_by_registers`: how many blocks do the registers alone allow? Compute this number in three steps. First,
# how many registers does one warp get? (A partly filled warp gets as many registers as a full warp.) Second, how many
# warps fit into an SM? Each [scheduler](../glossary.md#scheduler) has a quarter of the SM's registers, so compute how
# many warps fit into a quarter, and multiply by four. Third, how many blocks do these warps form?
#
# Your functions get the [compute capability](../glossary.md#compute-capability), the version of a GPU's hardware, as
# one number: 90 stands for 9.0. In the stub, `limits` holds the figures for this capability: `limits.registers`,
# `limits.register_unit`, `limits.max_warps`, and so on.
#
# <details><summary>Hint 1</summary><code>-(-a // b) * b</code> rounds <code>a</code> up to a multiple of
# <code>b</code>.</details>
# <details><summary>Hint 2</summary>With 160 registers per thread, a warp needs 160 · 32 = 5120 registers, which is a
# multiple of 256. A quarter has 16384 registers, so three warps fit into a quarter, and twelve into the SM.</details>
# <details><summary>Hint 3</summary>Divide by the warps per block only at the end, because the warps of a block are
# spread over all four schedulers.</details>


# %% cell="solution" id="registers"
def blocks_by_registers(threads, registers, capability):
    """Return how many blocks an SM's registers allow: `threads` threads per block, `registers` registers per thread."""
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
# Write `blocks_by_shared`: how many blocks does shared memory allow? A block gets the bytes that it requests, plus
# `limits.shared_reserved_kb` KB (1 KB = 1024 bytes) that CUDA reserves. This sum is rounded up to a multiple of
# `limits.shared_unit_bytes`. The SM has `limits.shared_per_sm_kb` KB in total. A block that requests more than
# `limits.shared_per_block_kb` KB cannot run: return 0. Never return more than `limits.max_blocks`. (On a T4, CUDA
# reserves no shared memory. What should your function return for a T4 and 0 bytes?)


# %% cell="solution" id="shared_memory"
def blocks_by_shared(shared_bytes, capability):
    """Return how many blocks an SM can hold if each requests `shared_bytes` bytes: at most limits.max_blocks."""
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
# The resource that allows the fewest blocks decides how many blocks an SM holds. Write `occupancy`: find this number of
# blocks, then divide the number of their warps by the number of warp slots. The check uses seven compute capabilities,
# and expects the results of CUDA's header `cuda_occupancy.h`.


# %% cell="solution" id="calculator"
def occupancy(threads, registers, shared_bytes, capability):
    """Return the number of resident warps of an SM divided by its warp slots: between 0 and 1."""
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
# | "in units of" | the registers of a warp, or the shared memory of a block, were not rounded up |
# | "one of four schedulers" | the 65536 registers were divided as a whole, not a quarter at a time |
# | "as much as a full one" | threads were divided by 32 without rounding up |
# | "allow fewer blocks than that" | one of the four limits is missing from the minimum |
#
# ## 5 How many registers a kernel uses, and how to limit them
#
# The compiler chooses how many registers a thread uses. `lab.inspect` compiles a kernel for any GPU and reports what
# the kernel uses. A cell below prints the source of `tile_kernel`. Each thread of this kernel keeps an 8 × 8
# [tile](../glossary.md#tile) of a [matmul](../glossary.md#matmul)'s result in registers. To limit the registers, write
# one of two limits before a kernel's name. `__launch_bounds__(threads, blocks)` ([launch
# bounds](../glossary.md#launch-bounds)) declares that a block has at most `threads` threads, and requests that `blocks`
# blocks fit on an SM. `__maxnreg__(n)` sets the maximum number of registers per thread. (In Triton, pass `maxnreg=` to
# the [launch](../glossary.md#launch).) Values that do not fit into the registers are *spilled*: the kernel stores them
# in [local memory](../glossary.md#local-memory).
#
# **Predict.** Suppose that `blocks` blocks of `threads` threads must fit on an SM. How many registers may a thread then
# have at most? Write `register_budget`, the inverse of `blocks_by_registers`. No thread may have more than
# `limits.registers_per_thread` registers.
#
# <details><summary>Hint 1</summary>How many warps must each of the four schedulers hold? Round up.</details>
# <details><summary>Hint 2</summary>Divide a quarter of the SM's registers by this number of warps, round down to a
# multiple of <code>limits.register_unit</code>, and divide by 32 threads.</details>


# %% cell="solution" id="budget"
def register_budget(threads, blocks, capability):
    """Return the most registers that a thread may have if `blocks` blocks of `threads` threads must fit on an SM."""
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
# If three or more blocks of `tile_kernel` must fit on an SM, the compiler uses every register that `register_budget`
# allows, and spills the values that do not fit. Each thread stores and reloads every spilled byte through the [L1
# cache](../glossary.md#l1-cache). The picture shows the occupancy for each number of registers per thread. At each step
# down, at least one block fewer fits on the SM. The larger the blocks, the larger the steps.
#
# ## 6 When low occupancy is right
#
# High occupancy is only a means to hide [latency](../glossary.md#latency). By Little's law, bandwidth depends on the
# number of bytes [in flight](../glossary.md#in-flight): *warps · bytes in flight per warp*. The next cell shows this
# for a copy kernel whose threads have 1, 2 or 4 loads of 16 bytes in flight. To lower the occupancy, its blocks
# allocate shared memory that they do not use. **Predict**: suppose that with 1 load the kernel reaches the full
# [bandwidth](../glossary.md#bandwidth) at an occupancy of x. Which occupancy does the kernel need with 2 loads, and
# which with 4?

# %%
lab.claims("03_occupancy")  # a two-minute quiz: predict each number, then compare
print(lab.hardware.COPY)
figures = lab.hardware.figures()  # measured here if there is a GPU; otherwise stored (the plot's title names the GPU)
lab.plots.show(lab.registers.throttled_copy, figures)

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Fast matmuls run at an occupancy of {claim: matmul_occupancy}. An [elementwise
# kernel](../glossary.md#elementwise-kernel) with one 4-byte load per thread needs the highest possible occupancy.
# Explain both facts. What would you try first if a kernel waits for memory at an occupancy of 25 %?
#
# ### BEGIN SOLUTION
# A matmul uses registers for large tiles. Larger tiles reuse each loaded value more often, so the matmul needs fewer
# loads. Each thread also has many independent multiply-adds and loads, so few warps keep the arithmetic units busy. An
# elementwise kernel has no reuse and few bytes in flight per thread; only more warps (or more and wider loads per
# thread) put enough bytes in flight. At 25 %, first let each thread issue several loads before it uses the first
# result. Then find which resource limits the blocks. A smaller tile, or a register limit that causes no spills, may
# allow another block.
# ### END SOLUTION

# %% [markdown]
# **Next.** Copy the cell of one of your kernels from `02_execution_model` into this notebook. Then
# `lab.widgets.occupancy(kernel)` sets the sliders to the resources that this kernel uses. Which resource limits its
# occupancy?
#
# **In practice** a [profiler](../glossary.md#profiler) also shows *achieved* occupancy: the average occupancy while the
# kernel runs. Achieved occupancy is lower than calculated occupancy if blocks end quickly, or if the
# [grid](../glossary.md#grid) has a [tail effect](../glossary.md#tail-effect). [Autotuning](../glossary.md#autotuning)
# does not calculate occupancy: it times the kernel with several launch bounds and tile sizes.
#
# **Reading.** [Volkov, Better performance at lower
# occupancy](https://www.nvidia.com/content/GTC-2010/pdfs/2238_GTC2010.pdf): the numbers are old, but the argument is
# still valid. [CUDA Best Practices Guide](https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/), "Occupancy".

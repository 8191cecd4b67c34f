# %% [markdown]
# # Calculate occupancy, and know when it matters
#
# **You will** write the calculator that tells how many blocks of a kernel an SM holds, check it against compiled
# kernels, and find out when a half-empty SM is the faster one.
#
# **You will learn to**
# - name the four limits on resident blocks, and the units in which registers and shared memory are handed out;
# - read a kernel's real registers, spills and shared memory, for any GPU, with none at hand;
# - set a register budget with `__launch_bounds__` and `__maxnreg__`, and see what it costs;
# - decide by Little's law whether more occupancy would help.
#
# **You need** `01_hardware`, `02_execution_model`. About 60 minutes. Works without a GPU; only times need one.

# %% cell="setup"

# %% [markdown]
# ## 1 Four limits
#
# An SM takes blocks until one of these runs out, and *occupancy* is the share of its places for warps that are taken:
#
# | resource | an SM of an H100 has | handed out |
# |---|---|---|
# | places for warps | 64 | to a block, all its warps at once |
# | places for blocks | 32 | one |
# | registers | 65536 | to a warp, in units of 256; each of the four schedulers has a quarter, for its own warps |
# | shared memory | 228 KB | to a block, in units of 128 bytes, and 1 KB more for the system |
#
# They stay taken until the whole block ends. Play with the sliders before you calculate: 128 threads with 160 registers
# give 12 warps of 64, 18.75 %; 256 threads with 40 registers and 32 KB give 75 %. From how many registers on
# does the first of them get a fourth block?

# %%
lab.widgets.occupancy(threads=128, registers=160, gpu="H100 SXM")

# %% [markdown]
# ## 2 Registers
#
# How many blocks do the registers alone allow? Work from the warp: what is handed to one, how many warps fit into the
# quarter of one scheduler, and so into the SM; then how many blocks those make. A warp that is not full takes the room
# of a full one.
#
# `limits` is what the catalogue says of a compute capability: `limits.registers`, `limits.register_unit`,
# `limits.max_warps`, and so on. The capability comes as one number, 90 for 9.0.
#
# <details><summary>Hint 1</summary>Rounding <code>a</code> up to a multiple of <code>b</code> is
# <code>-(-a // b) * b</code>.</details>
# <details><summary>Hint 2</summary>160 registers × 32 lanes = 5120, a multiple of 256. A quarter is 16384: three warps
# fit, twelve in the SM.</details>
# <details><summary>Hint 3</summary>Divide by the warps of a block at the very end: a block spreads over all four
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
# A block takes what it asks for and the system's `limits.shared_reserved_kb` KB, together rounded up to a multiple of
# `limits.shared_unit_bytes`. The SM has `limits.shared_per_sm_kb` KB to hand out. A block that asks for more than
# `limits.shared_per_block_kb` KB never runs: 0. However little it asks for, no more than `limits.max_blocks` fit. (On a
# T4 the system takes nothing. What if the kernel takes nothing either?)


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
# ## 4 All four
#
# The scarcest resource decides. (Hidden cases come from seven compute capabilities; your functions are compared with
# the arithmetic of NVIDIA's own `cuda_occupancy.h`, and on a GPU that is what its driver answers.)


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

# %%
from labutils import plots


def staircase(capability=90):
    picture = plots.figure(6.4, 3)
    axis = picture.subplots()
    for k, threads in enumerate((64, 256, 1024)):
        registers = range(16, 65536 // threads + 1 if threads > 256 else 256)
        steps = [100 * occupancy(threads, r, 0, capability) for r in registers]
        style, colour = ("-", "--", ":")[k], plots.PALETTE[k]
        axis.step(registers, steps, style, where="post", color=colour, label=f"{threads} threads")
    axis.set(xlabel="registers a thread", ylabel="occupancy, %", ylim=(0, 105), title="Your calculator, H100")
    axis.legend()
    picture.alt = (
        "Stairs that go down with the registers; for blocks of 1024 threads they fall from 100 % to 50 % at once."
    )
    return picture


plots.show(staircase)

# %% [markdown]
# | what a check says | a common cause |
# |---|---|
# | "in units of" | registers are rounded up for each warp, shared memory for each block |
# | "one of four schedulers" | 65536 registers are four times 16384, and no warp takes from two quarters |
# | "the room of a full one" | threads were divided by 32 without rounding up |
# | "allow fewer blocks than that" | one of the four limits is missing from the minimum |
#
# ## 5 What compilers take, and how to bargain
#
# Nobody writes down registers: the compiler decides. `lab.inspect` compiles a kernel for any GPU and reads what it
# took. This one keeps an 8 × 8 tile of a matrix product in each thread. `__launch_bounds__(threads, blocks)` promises
# the largest block, and asks that so many blocks fit on an SM; `__maxnreg__(n)` gives the most registers directly. (In
# Triton the same is an argument of the launch, `maxnreg=`.) What does not fit is *spilled* to memory.

# %% cell="given" id="tile"
TILE = """
__global__ void BOUND tile_kernel(const float* A, const float* B, float* C, int K) {
    float acc[8][8] = {};
    int m = (blockIdx.y * 16 + threadIdx.x / 16) * 8, n = (blockIdx.x * 16 + threadIdx.x % 16) * 8, N = gridDim.x * 128;
    for (int k = 0; k < K; k++) {
        float a[8], b[8];
        for (int i = 0; i < 8; i++) a[i] = A[(m + i) * K + k];
        for (int j = 0; j < 8; j++) b[j] = B[k * N + n + j];
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 8; j++) acc[i][j] += a[i] * b[j];
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) C[(m + i) * N + n + j] = acc[i][j];
}
"""


def compiled(bound, capability=90):
    """What the tile kernel takes with that bound, read out of machine code; None without a compiler."""
    try:
        return lab.inspect.of(lab.cuda.compile(TILE.replace("BOUND", bound), "tile_kernel"), divmod(capability, 10))
    except (lab.nvrtc.Unavailable, lab.inspect.ToolMissing) as e:
        print(e)


for bound in ("", "__launch_bounds__(256)", "__maxnreg__(64)"):
    if took := compiled(bound):
        print(
            f"{bound or 'no bound':24} {took.registers:3} registers, {took.stack:3} bytes of a thread spilled", end=", "
        )
        print(f"occupancy {occupancy(256, took.registers, took.shared, 90):.1%} with blocks of 256 threads")

# %% [markdown]
# **Predict.** If `blocks` blocks of `threads` threads are to fit on an SM, how many registers may a thread have at
# most? It is the way back through your first function; with the cap of `limits.registers_per_thread`.
#
# <details><summary>Hint 1</summary>How many warps must each of the four schedulers hold? Round up.</details>
# <details><summary>Hint 2</summary>Share a quarter of the registers among those, rounded down to the unit.</details>


# %% cell="solution" id="budget"
def register_budget(threads, blocks, capability):
    """The most registers a thread may have, so that `blocks` blocks fit."""
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
print(f"{'blocks asked for':>16} {'your budget':>12} {'compiler took':>14} {'spilled':>8} {'occupancy':>10}")
for blocks in (1, 2, 3, 4, 6, 8):
    if took := compiled(f"__launch_bounds__(256, {blocks})"):
        share = occupancy(256, took.registers, took.shared, 90)
        budget = register_budget(256, blocks, 90)
        print(f"{blocks:16} {budget:12} {took.registers:14} {took.stack:6} B {share:10.1%}")

# %% [markdown]
# From three blocks on the budget binds: the compiler uses it to the last register and pays with spills. Every byte
# spilled is stored and loaded again by every thread, through the L1. At full occupancy this kernel would keep half of
# its tile in memory.
#
# ## 6 When low occupancy is right
#
# Occupancy is a means: enough on its way to hide latency. By Little's law that is *warps × bytes that each has on its
# way*, and the second factor counts as much as the first. A copy shows it: each thread has 1, 2 or 4 loads of 16 bytes
# on their way, and shared memory that nobody uses keeps other blocks off the SM. **Predict** before you look: how much
# occupancy does each of the three need to reach the full bandwidth?

# %%
print(lab.hardware.COPY)
figures = lab.hardware.figures()  # measured here if there is a GPU; else on the GPU that is named


def throttled_copy(figures):
    picture = plots.figure(6.4, 3)
    axis = picture.subplots()
    for k, loads in enumerate(sorted({row["loads"] for row in figures.occupancy})):
        rows = [row for row in figures.occupancy if row["loads"] == loads]
        x, y = [100 * row["occupancy"] for row in rows], [row["gbs"] for row in rows]
        axis.plot(x, y, "osD"[k] + ("-", "--", ":")[k], color=plots.PALETTE[k], label=f"{loads} loads a thread")
    axis.set(
        xlabel="occupancy, %", ylabel="GB/s read and written", title=f"Copy of 1 GiB, {figures.gpu}", ylim=(0, None)
    )
    if figures.occupancy:
        axis.legend()
    said = "; ".join(f"{r['loads']} loads at {r['occupancy']:.0%}: {r['gbs']:.0f} GB/s" for r in figures.occupancy)
    picture.alt = f"Bandwidth over occupancy. {said or 'Not measured yet'}."
    return picture


plots.show(throttled_copy, figures)

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Fast matrix products run at an occupancy of 12 to 25 %, an elementwise kernel with one load in each
# thread wants all it can get. Why is each right? And what would you try first for a kernel at 25 % that waits for
# memory?
#
# ### BEGIN SOLUTION
# A matmul spends registers on large tiles: more reuse, so less to load, and many independent multiply-adds and loads in
# each thread, so that few warps suffice to keep the units busy. An elementwise kernel has no reuse and little of its
# own on its way; only more warps (or more, wider loads in each thread) put enough bytes on their way. So at 25 % first
# give every thread more loads before their first use; then look what limits the blocks, and whether a smaller tile or a
# register bound without spills lets in another one.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** `lab.widgets.occupancy(kernel)` starts from what one of your own kernels takes: try it on one of
# `02_execution_model`, and on `tile_kernel`. Put the tile in shared memory: which of the four limits takes over?
#
# **In practice** a profiler shows *achieved* occupancy too, the average over time. It is lower than yours where the
# grid has a tail, or where blocks are short. Autotuners try bounds and tile sizes instead of calculating.
#
# **Reading.** [Volkov, Better performance at lower
# occupancy](https://www.nvidia.com/content/GTC-2010/pdfs/2238_GTC2010.pdf):
# old numbers, and still the point. [CUDA Best Practices
# Guide](https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/), "Occupancy".

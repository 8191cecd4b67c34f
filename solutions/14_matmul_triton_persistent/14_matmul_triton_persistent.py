# %% [markdown]
# # Persistent matmul kernels with tensor descriptors in Triton
#
# **You will** write a [persistent](../glossary.md#persistent-kernel) matmul kernel with [tensor
# descriptors](../glossary.md#tensor-descriptor), and a [split-K](../glossary.md#split-k) kernel.
#
# **You will learn to**
# - predict what share of the GPU does useful work;
# - copy [tiles](../glossary.md#tile) with Hopper's copy engine, the [TMA](../glossary.md#tma);
# - overlap loads, `tl.dot` and stores;
# - keep all SMs busy when there are few tiles;
# - find a good configuration in few trials.
#
# **You need** `14_matmul_triton`.
#
# About 75 minutes. You need a GPU only to measure times.

# %% cell="setup"

# %% [markdown]
# ## Predict: what share of the GPU does useful work?
#
# An H200 has {claim: matmul_h200_sms} SMs. Let each SM compute one tile of 128 × 256 at a time. A matrix C of 2048 ×
# 2048 has 16 · 8 = 128 tiles. These take one [wave](../glossary.md#wave), in which four SMs are idle. A matrix C of
# 2304 × 2304 has 18 · 9 = 162 tiles. These take two waves, and in the second wave only 30 SMs work.
#
# A tile that is partly outside C takes as much time as a full tile. So in each wave, a GPU with `sms` SMs has time for
# `sms` full tiles. Count the elements that the GPU has time for in all waves: what fraction of them are elements of C?

# %% cell="solution" id="busy_share"
def busy_share(M, N, block_m, block_n, sms):
    """Return the elements of C, divided by the elements that `sms` SMs have time to compute in all waves."""
    ### BEGIN SOLUTION
    count = -(-M // block_m) * -(-N // block_n)
    waves = -(-count // sms)
    return M * N / (waves * sms * block_m * block_n)
    ### END SOLUTION


# %% cell="check" exercise="14_matmul_triton_persistent/busy_share"
lab.check("14_matmul_triton_persistent/busy_share")

# %% cell="given" id="store_tile"
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from labutils import tiles


@triton.jit
def grouped_tile(pid, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Return (row, column) of tile `pid`. A group has GROUP_M rows of tiles; within it, tiles go column by column."""
    per_group = GROUP_M * tiles_n
    first_m = pid // per_group * GROUP_M
    rows = tl.minimum(tiles_m - first_m, GROUP_M)
    within = pid % per_group
    return first_m + within % rows, within // rows


@triton.jit
def store_tile(c_desc, m, n, acc, BLOCK_N: tl.constexpr, HALVES: tl.constexpr):
    """Store the tile at (m, n). With HALVES, store its left and right half separately, to use less shared memory."""
    if HALVES:
        rows: tl.constexpr = acc.shape[0]
        left, right = tl.split(tl.permute(tl.reshape(acc, (rows, 2, BLOCK_N // 2)), (0, 2, 1)))
        c_desc.store([m, n], left.to(c_desc.dtype))
        c_desc.store([m, n + BLOCK_N // 2], right.to(c_desc.dtype))
    else:
        c_desc.store([m, n], acc.to(c_desc.dtype))


# %% [markdown]
# ## Level 3: tensor descriptors in a persistent kernel
#
# Levels 1 and 2 are in `14_matmul_triton`. With Hopper's TMA, one instruction copies a whole tile to or from shared
# memory. The copy needs no tile of pointers, no mask, and no registers for the data. A **tensor descriptor** (here
# `desc`) holds the address, shape and strides of a matrix, and the shape of its tiles. (Descriptors replace the
# deprecated [block pointer](../glossary.md#block-pointer), `tl.make_block_ptr`.)
#
# - `desc.load([m, k])` loads the tile whose first element is (m, k). Elements outside the matrix become 0.
# - `desc.store([m, n], tile)` stores a tile. Elements outside the matrix are not written.
# - Rows must start at multiples of 16 bytes, and the last stride must be 1. If a matrix breaks these rules,
#   `lab.aligned` copies it to a new array.
#
# The kernel is persistent: it has at most `NUM_PROGRAMS` programs, one per SM. Program p computes tiles p, p +
# `NUM_PROGRAMS`, p + 2 · `NUM_PROGRAMS`, … of C. Write this loop over tiles with `tl.range` and these two options:
#
# - `flatten=FLATTEN` merges this loop with the loop along K inside it. Loads of A and B for the next tile of C then
#   start while the current tile of C is stored.
# - `warp_specialize=SPECIALIZE` moves the loads to separate warps ([warp
#   specialization](../glossary.md#warp-specialization)). `SPECIALIZE` is False unless you set it: Triton documents this
#   option only for Blackwell GPUs. On Hopper, this option also requires that each program makes its own descriptors, as
#   in `device_kernel` below.
#
# B is stored as (K, N), or as (N, K) if `B_IS_NK` is true; weights of a linear layer are usually stored as (N, K).
# [Tensor cores](../glossary.md#tensor-core) can read both forms. For (N, K), load at `[n, k]` and transpose the tile
# with `.T`.
#
# <details><summary>Hint 1</summary>The outer loop goes over tiles of C, from <code>tl.program_id(0)</code> in steps of
# <code>NUM_PROGRAMS</code>. For each tile, set <code>acc</code> to zeros and loop along K.</details>
# <details><summary>Hint 2</summary><code>grouped_tile</code> returns the row and the column of a tile, counted in
# tiles. Descriptors take indices in elements: multiply by <code>BLOCK_M</code> and <code>BLOCK_N</code>.</details>
# <details><summary>Hint 3</summary>Store with the given function <code>store_tile</code>.</details>


# %% cell="solution" id="multiply_tiles"
@triton.jit
def multiply_tiles(
    a_desc, b_desc, c_desc, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, B_IS_NK: tl.constexpr, RELU: tl.constexpr, NUM_PROGRAMS: tl.constexpr,
    FLATTEN: tl.constexpr, SPECIALIZE: tl.constexpr, HALVES: tl.constexpr,
):  # fmt: skip
    """Compute all tiles of one program: c = a @ b, or max(a @ b, 0) with RELU.

    a_desc  (M, K), tiles BLOCK_M x BLOCK_K
    b_desc  (K, N), tiles BLOCK_K x BLOCK_N; with B_IS_NK (N, K), tiles BLOCK_N x BLOCK_K
    c_desc  (M, N), tiles BLOCK_M x BLOCK_N; with HALVES, BLOCK_M x BLOCK_N // 2
    One program computes every NUM_PROGRAMS-th tile, in the order of grouped_tile.
    """
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    k_tiles = tl.cdiv(K, BLOCK_K)
    ### BEGIN SOLUTION
    for tile in tl.range(
        tl.program_id(0), tiles_m * tiles_n, NUM_PROGRAMS, flatten=FLATTEN, warp_specialize=SPECIALIZE
    ):
        pid_m, pid_n = grouped_tile(tile, tiles_m, tiles_n, GROUP_M)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(k_tiles):
            a = a_desc.load([pid_m * BLOCK_M, k * BLOCK_K])
            if B_IS_NK:
                b = b_desc.load([pid_n * BLOCK_N, k * BLOCK_K]).T
            else:
                b = b_desc.load([k * BLOCK_K, pid_n * BLOCK_N])
            acc = tl.dot(a, b, acc)
        if RELU:
            acc = tl.maximum(acc, 0.0)
        store_tile(c_desc, pid_m * BLOCK_M, pid_n * BLOCK_N, acc, BLOCK_N, HALVES)
    ### END SOLUTION


# %% cell="given" id="persistent"
@triton.jit
def device_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_a, stride_b, stride_c,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, B_IS_NK: tl.constexpr, RELU: tl.constexpr, NUM_PROGRAMS: tl.constexpr,
    FLATTEN: tl.constexpr, SPECIALIZE: tl.constexpr, HALVES: tl.constexpr,
):  # fmt: skip
    """Multiply with descriptors that each program makes itself; on Hopper, warp_specialize requires this."""
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [stride_a, 1], [BLOCK_M, BLOCK_K])
    if B_IS_NK:
        b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [stride_b, 1], [BLOCK_N, BLOCK_K])
    else:
        b_desc = tl.make_tensor_descriptor(b_ptr, [K, N], [stride_b, 1], [BLOCK_K, BLOCK_N])
    columns: tl.constexpr = BLOCK_N // 2 if HALVES else BLOCK_N
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [stride_c, 1], [BLOCK_M, columns])
    multiply_tiles(a_desc, b_desc, c_desc, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, B_IS_NK, RELU, NUM_PROGRAMS,
                   FLATTEN, SPECIALIZE, HALVES)  # fmt: skip


def persistent_config(M, N, lengths):
    """Return the tile sizes; `lengths` are those of the rows in which A and B are stored."""
    gpu = lab.device.current()
    if M * N < 2**16:
        tile = dict(BLOCK_M=16, BLOCK_N=64, HALVES=True) if N > 32 else dict(BLOCK_M=64, BLOCK_N=16)
        return dict(BLOCK_K=32, GROUP_M=4, num_warps=4, num_stages=2) | tile
    if gpu and gpu.capability[0] == 9:
        large = dict(BLOCK_K=64, GROUP_M=8, FLATTEN=True, HALVES=True)
        waves = [triton.cdiv(triton.cdiv(M, 128) * triton.cdiv(N, n), gpu.sms) for n in (128, 256)]
        # on an H200, a wave with tiles of 256 columns takes 1.8 times as long as with 128 columns; where the rows of
        # neither matrix are multiples of 128 bytes, loads limit the speed, and 256 columns need 1.5 times as many rows
        if waves[0] > (1.8 if any(length % 64 == 0 for length in lengths) else 1.45) * waves[1]:
            return dict(BLOCK_M=128, BLOCK_N=256, num_warps=8, num_stages=4) | large
        return dict(BLOCK_M=128, BLOCK_N=128, num_warps=4, num_stages=6) | large
    return dict(BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, GROUP_M=8, num_warps=4, num_stages=3)


def persistent(a, b, c, relu=True, config=None):
    (M, K), N = a.shape, b.shape[1]
    by_columns = b.stride(0) == 1 and b.stride(1) > 1
    config = config or persistent_config(M, N, (K, K if by_columns else N))
    config = dict(FLATTEN=False, SPECIALIZE=False, HALVES=False) | config
    on_device = config.pop("on_device", False)
    BLOCK_M, BLOCK_N, BLOCK_K = config["BLOCK_M"], config["BLOCK_N"], config["BLOCK_K"]
    a, b, out = lab.aligned(a), lab.aligned(b.T if by_columns else b), lab.aligned(c, keep=False)
    gpu = lab.device.current()
    sms = gpu.sms if gpu else 4
    programs = min(sms, triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N))
    flags = dict(B_IS_NK=by_columns, RELU=relu, NUM_PROGRAMS=sms)
    if on_device:
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
        rows = (a.stride(0), b.stride(0), out.stride(0))
        device_kernel[(programs,)](a, b, out, M, N, K, *rows, **flags, **config)
    else:
        a_desc = TensorDescriptor.from_tensor(a, [BLOCK_M, BLOCK_K])
        b_desc = TensorDescriptor.from_tensor(b, [BLOCK_N, BLOCK_K] if by_columns else [BLOCK_K, BLOCK_N])
        c_desc = TensorDescriptor.from_tensor(out, [BLOCK_M, BLOCK_N // 2 if config["HALVES"] else BLOCK_N])
        multiply_tiles[(programs,)](a_desc, b_desc, c_desc, M, N, K, **flags, **config)
    if out is not c:
        c.copy_(out)


lab.tiny("14_matmul_triton_persistent/persistent")

# %% cell="check" exercise="14_matmul_triton_persistent/persistent"
lab.check("14_matmul_triton_persistent/persistent")

# %% [markdown]
# ## Level 4, optional: split-K
#
# A language model that generates 16 texts at a time computes one new token per text in each step. A has one row per new
# token, so it has only 16 rows. For M = 16 and N = K = 4096, C has 32 tiles of 128 columns, and 100 of 132 SMs are
# idle. Split-K uses these SMs: several programs (`parts` is their number) compute one tile together.
#
# 1. K is divided into blocks of `BLOCK_K`. Program `part` of a tile (0 to `parts - 1`) multiplies blocks `part`,
#    `part + parts`, `part + 2 * parts`, … of A and B, and accumulates the products.
# 2. The program adds its accumulator to the fp32 array `sums` with [atomics](../glossary.md#atomic).
# 3. The program adds 1 to the tile's counter in `arrived`, also with an atomic, which returns the old count. If the old
#    count is `parts - 1`, this program is the last one of the tile.
# 4. The last program loads the tile from `sums`, applies the ReLU, and stores the result to C.
#
# All elements of `sums` and all counters start at 0.
#
# <details><summary>Hint 1</summary>The loop along K starts at <code>part * BLOCK_K</code>, with steps of <code>parts *
# BLOCK_K</code>.</details>
# <details><summary>Hint 2</summary>Add to <code>sums</code> with <code>tl.atomic_add(pointers, values, mask=…,
# sem="relaxed")</code>: this atomic orders no other accesses. Count with <code>tl.atomic_add(arrived_ptr + pid,
# 1)</code>, without <code>sem="relaxed"</code>: the count then also makes the program's earlier additions visible to
# the last program.</details>
# <details><summary>Hint 3</summary>Only one thread executes the count. Put <code>tl.debug_barrier()</code> before it,
# so that all threads of the program have added by then.</details>


# %% cell="solution" id="split_k_kernel"
@triton.jit
def split_k_kernel(
    a_desc, b_desc, c_ptr, sums_ptr, arrived_ptr, M, N, K, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, B_IS_NK: tl.constexpr,
):  # fmt: skip
    """Compute c = max(a @ b, 0), with several programs per tile.

    a_desc       (M, K), tiles BLOCK_M x BLOCK_K
    b_desc       (K, N), tiles BLOCK_K x BLOCK_N; with B_IS_NK (N, K), tiles BLOCK_N x BLOCK_K
    c_ptr        (M, N)    output
    sums_ptr     (M, N)    fp32 zeros
    arrived_ptr  (tiles,)  int32 zeros
    One program accumulates one of `parts` parts of K for a tile; the last program of a tile stores it.
    """
    pid, part, parts = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    tiles_n = tl.cdiv(N, BLOCK_N)
    m, n = pid // tiles_n * BLOCK_M, pid % tiles_n * BLOCK_N
    offs_m, offs_n = m + tl.arange(0, BLOCK_M), n + tl.arange(0, BLOCK_N)
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    sums_ptrs = sums_ptr + offs_m[:, None] * N + offs_n[None, :]
    c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    ### BEGIN SOLUTION
    for k in range(part * BLOCK_K, K, parts * BLOCK_K):
        a = a_desc.load([m, k])
        b = b_desc.load([n, k]).T if B_IS_NK else b_desc.load([k, n])
        acc = tl.dot(a, b, acc)
    tl.atomic_add(sums_ptrs, acc, mask=mask, sem="relaxed")
    tl.debug_barrier()
    if tl.atomic_add(arrived_ptr + pid, 1) == parts - 1:
        acc = tl.load(sums_ptrs, mask=mask)
        tl.store(c_ptrs, tl.maximum(acc, 0.0), mask=mask)
    ### END SOLUTION


# %% cell="given" id="split_k"
def split_config(M, N, K):
    """Return a tile's shape with launch options, and the number of programs per tile: as many as fit in one wave."""
    gpu, tiles = lab.device.current(), lambda m, n: triton.cdiv(M, m) * triton.cdiv(N, n)
    if M * N * K < 2**20:
        small = dict(BLOCK_M=16, BLOCK_N=16, BLOCK_K=32, num_warps=4, num_stages=2)
        return small, max(1, min(triton.cdiv(8, tiles(16, 16)), triton.cdiv(K, 64)))
    roomy = gpu and gpu.limits.shared_per_block_kb > 160
    BLOCK_M = 64 if M <= 64 else 128
    config = dict(BLOCK_M=BLOCK_M, BLOCK_N=128, BLOCK_K=64, num_warps=BLOCK_M // 16, num_stages=4 if roomy else 3)
    return config, max(1, min((gpu.sms if gpu else 8) // tiles(BLOCK_M, 128), K // 256))


def split_k(a, b, c, config=None, parts=None):
    (M, K), N = a.shape, b.shape[1]
    choice, wanted = split_config(M, N, K)
    config, parts = config or choice, parts or wanted
    BLOCK_M, BLOCK_N, BLOCK_K = config["BLOCK_M"], config["BLOCK_N"], config["BLOCK_K"]
    by_columns = b.stride(0) == 1 and b.stride(1) > 1
    a, b = lab.aligned(a), lab.aligned(b.T if by_columns else b)
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    zeros = torch.zeros(M * N + tiles, dtype=torch.int32, device=a.device)
    sums, arrived = zeros[: M * N].view(torch.float32), zeros[M * N :]
    a_desc = TensorDescriptor.from_tensor(a, [BLOCK_M, BLOCK_K])
    b_desc = TensorDescriptor.from_tensor(b, [BLOCK_N, BLOCK_K] if by_columns else [BLOCK_K, BLOCK_N])
    split_k_kernel[(tiles, parts)](a_desc, b_desc, c, sums, arrived, M, N, K, *c.stride(), B_IS_NK=by_columns, **config)


lab.tiny("14_matmul_triton_persistent/split_k")

# %% cell="check" exercise="14_matmul_triton_persistent/split_k"
lab.check("14_matmul_triton_persistent/split_k")


# %% [markdown]
# ## Autotuning in few trials
#
# We found the configurations above by timing many on an H200. [Autotuning](../glossary.md#autotuning) does this for
# each problem size. With four values each for `BLOCK_M`, `BLOCK_N` and `num_stages`, three for `BLOCK_K` and two for
# `num_warps`, there are 4 · 4 · 4 · 3 · 2 = 384 configurations. Each configuration must be compiled before it can be
# timed.
#
# Write `tune` for a simulated kernel: return a configuration that is at most 5 % slower than the best one.
# `kernel.seconds(BLOCK_M=…, …)` returns the time of a configuration. The call raises `DoesNotFit` if the configuration
# needs more [shared memory](../glossary.md#shared-memory) or [registers](../glossary.md#register) than a
# [program](../glossary.md#program) can have. Each call is one trial, even for a configuration that was timed before.
# Use no more than `trials` trials. The dict `space` maps each parameter name (such as `BLOCK_M`) to its values, from
# small to large.
#
# In this simulated kernel, the effects of the five parameters are almost independent: for example, the best `BLOCK_K`
# does not depend on `BLOCK_M`. So you need not try all combinations. But whether a configuration fits depends on all
# parameters.
#
# <details><summary>Hint 1</summary>Start with any configuration. For one parameter after another, time all its values
# and keep the best value. How many trials does this take?</details>
# <details><summary>Hint 2</summary>A configuration that does not fit cannot be timed. So start with one that fits: the
# fewest stages and the smallest tiles need the least shared memory. With more warps, each thread needs fewer registers,
# because the accumulators of a tile are distributed over the threads.</details>
# <details><summary>Hint 3</summary>Start with the smallest value of each parameter, but the largest
# <code>num_warps</code>. Catch <code>DoesNotFit</code> and use <code>math.inf</code> as the time.</details>

# %% cell="solution" id="tune"
import math

from labutils import DoesNotFit


def tune(kernel, space, trials):
    """Return a configuration, a dict with a value for each name of `space`, after at most `trials` trials."""
    ### BEGIN SOLUTION
    times = {}

    def seconds(config):
        key = tuple(config.values())
        if key not in times:
            try:
                times[key] = kernel.seconds(**config) if len(times) < trials else math.inf
            except DoesNotFit:
                times[key] = math.inf
        return times[key]

    best = {name: values[0] for name, values in space.items()} | {"num_warps": max(space["num_warps"])}
    for name, values in space.items():
        best = min(({**best, name: value} for value in values), key=seconds)
    return best
    ### END SOLUTION


# %% cell="check" exercise="14_matmul_triton_persistent/tune"
lab.check("14_matmul_triton_persistent/tune")

# %% [markdown]
# `triton.autotune` times *all* configurations of its list. Its parameter `key` names arguments of the kernel: for each
# new combination of their values, it times all configurations again. In `key`, name only arguments that change the best
# choice: sizes, flags, and [strides](../glossary.md#stride) if some layouts are slower.

# %% [markdown]
# ## Level 5, to read: parts in memory, and a model instead of trials
#
# Level 4 pays for its atomics: the zeros take a launch of their own, programs wait for each other at the same elements
# of `sums`, and the order of the additions, and with it the last bits of C, differs from run to run. Level 5 has no
# atomics. Each program stores its accumulator to its own part of an array `sums` of shape (parts, M, N). A second
# kernel adds the parts in a fixed order, so that each run gives the same result. If there is only one part, `out_desc`
# describes C itself, and there is no second kernel.
#
# The second launch takes about 2 µs, less than the zeros, because it starts early. With [programmatic
# dependent launch](../glossary.md#programmatic-dependent-launch), the programs of the second kernel start when all
# programs of the first one have called `gdc_launch_dependents`. In `gdc_wait`, they wait until all stores of the first
# kernel are done.
#
# For each problem size, there are dozens of choices of a tile and a number of parts. Instead of timing them, `estimate`
# predicts their times:
#
# - A tile takes `steps` iterations along K, with 64 elements of K in each: in fp16, 128 bytes. In an iteration, an SM
#   multiplies rows · columns · 64 elements, and loads rows + columns pieces of 128 bytes. The larger of the two times
#   counts: small tiles wait for their loads. A piece that does not start at a multiple of 128 bytes is in two [cache
#   lines](../glossary.md#cache-line), and takes longer.
# - Device memory must transfer A, B and C once. The larger of this time and the time of all iterations counts. They
#   overlap only in part, so half of the smaller one is added.
# - Several parts are stored and loaded again: 8 bytes for each element of C and each part.
#
# `plan` returns the choice with the shortest time. A choice with 0 parts is the kernel of level 6.
#
# We chose the constants with the times of half of {claim: matmul_model_sizes} problem sizes on an H200. At the other
# half, the planned choice takes {claim: matmul_model_mean} times as long as the best one, on average.

# %%
tiles.show("parts_kernel", "add_parts_kernel", "estimate", "plan")

# %% [markdown]
# ## Level 6, to read: tiles of 192 columns
#
# A product that needs several waves wants a persistent kernel, and a tile with which the last wave is full. A C of 3072
# × 3072 has 288 tiles of 128 × 256: three waves, but the last one has only 24 tiles. With 384 tiles of 128 × 192, three
# waves are nearly full, and each takes three quarters of the time. But the sides of an array in Triton are powers of
# two. With two `tl.dot` in a loop, for 128 and 64 columns, our kernel reached only 0.6 of its usual speed.
#
# [Gluon](../glossary.md#gluon) is Triton's low-level language (`16_matmul_ring` explains it). The file
# `labutils/lessons/matmul_gluon.py` has the persistent kernel in Gluon, for Hopper. One warp copies tiles. Each of two
# [warpgroups](../glossary.md#warpgroup) has its own rows of a tile and its own loop, so that one can store while the
# other multiplies. And a warpgroup may have two accumulators, of 128 and of 64 columns.
#
# `matmul` uses all of it: `plan` compares the estimates of levels 5 and 6. Speed relative to cuBLAS (without ReLU) on
# an H200:
#
# | M × N, K | levels 3 and 4 | `matmul` | tile, parts |
# |---|---|---|---|
# | 16 × 4096, K = 4096 | {claim: planned_rows_before} | {claim: planned_rows} | {claim: planned_rows_tile} |
# | 512 × 512, K = 16384 | {claim: planned_long_k_before} | {claim: planned_long_k} | {claim: planned_long_k_tile} |
# | 3072 × 3072, K = 3072 | {claim: planned_3072_before} | {claim: planned_3072} | {claim: planned_3072_tile} |
# | 7168 × 3072, K = 8192 | {claim: planned_7168_before} | {claim: planned_7168} | {claim: planned_7168_tile} |
# | 5000 × 120, K = 4096 | {claim: planned_narrow_before} | {claim: planned_narrow} | {claim: planned_narrow_tile} |
#
# In the last row, cuBLAS is far ahead: its blocks form [clusters](../glossary.md#cluster), and the TMA writes a tile to
# the shared memory of all SMs of a cluster at once. `16_matmul_ring` shows this. In Triton 3.6, it is not possible.


# %% cell="given" id="matmul"
def matmul(a, b, c):
    """Compute max(a @ b, 0): on Hopper as planned, elsewhere with split-K if that fits into one wave, or level 3."""
    if lab.device.runs(90):
        return tiles.planned(a, b, c)
    *_, parts = split_config(a.shape[0], b.shape[1], a.shape[1])
    return (split_k if parts > 1 else persistent)(a, b, c)


# On a GPU, this cell prints the speed of levels 3 and 4, and compares level 3 with cuBLAS, NVIDIA's library.
for name in ("persistent", "split_k"):
    print(lab.benchmark(f"14_matmul_triton_persistent/{name}") or "")
tiles.claims(persistent)
lab.claims("14_matmul_triton_persistent")  # a two-minute quiz: predict each number, then compare

# %% [markdown]
# **Next.** `15_hunt` hides bugs in kernels like these. `15_matmul_cuda` builds a tiled matmul in CUDA C++. In this
# notebook you can try two more steps:
#
# - *[Stream-K](../glossary.md#stream-k)*: divide the K iterations of all tiles evenly among the SMs. A program may then
#   start in the middle of a tile.
# - *Back and forth*: in `multiply_tiles`, let every second tile of a program start at the end of K. What it loads
#   first, the previous tile loaded last, so it is still in the [L2](../glossary.md#l2-cache).
#
# **Reading.** [Triton's tutorial on persistent
# kernels](https://triton-lang.org/main/getting-started/tutorials/09-persistent-matmul.html).
# [Stream-K](https://arxiv.org/abs/2301.03598) describes matmul without partly empty waves.

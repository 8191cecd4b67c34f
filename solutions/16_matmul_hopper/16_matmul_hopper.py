# %% [markdown]
# # Copy and multiply tiles with Hopper's TMA and WGMMA
#
# **You will** write two kernels for Hopper GPUs ([compute capability](../glossary.md#compute-capability) 9.0). The
# first copies [tiles](../glossary.md#tile) with the copy engine, the [TMA](../glossary.md#tma). The second also
# multiplies the tiles, with the tensor-core instruction [WGMMA](../glossary.md#wgmma).
#
# **You will learn to**
# - wait for copies with an [mbarrier](../glossary.md#mbarrier), a counter in [shared
#   memory](../glossary.md#shared-memory);
# - use [swizzled](../glossary.md#swizzle) tiles with the TMA and WGMMA.
#
# **You need** `14_matmul_triton_persistent` and `15_matmul_tensor_cores`.
#
# About 75 minutes. The kernels run in the emulator, or on a Hopper GPU (H100, H200).

# %% cell="setup"

# %% [markdown]
# ## Predict: asynchronous engines
#
# In unit 15, each thread started its own copies, and each warp multiplied. On Hopper, two [asynchronous
# engines](../glossary.md#async-engine) take over this work:
#
# - **TMA**: *one* thread starts the copy of a whole [box](../glossary.md#box), a rectangle of a matrix, to shared
#   memory. Elements outside the matrix become zeros.
# - **WGMMA**: a [warpgroup](../glossary.md#warpgroup) (four warps) starts the product of a 64 × 16 tile of A and a 16 ×
#   n tile of B (n ≤ 256). The tile of B must be in shared memory; the tile of A may also be in registers. The
#   [accumulators](../glossary.md#accumulator) are in registers.
#
# The engines work while your threads continue, so a thread must wait until a copy or a product is complete. A thread
# waits for copies at an **mbarrier**, which takes 8 bytes of shared memory. An mbarrier counts the threads that have
# arrived, and the bytes that copies have delivered. When all expected threads and bytes have arrived, a
# [phase](../glossary.md#phase) of the mbarrier ends and the next phase begins.
#
# 1. A [stage](../glossary.md#stage) is a buffer for two tiles: a `block_m` × `block_k` tile of A and a `block_n` ×
#    `block_k` tile of B (B is stored transposed, with K along its rows). One mbarrier counts the bytes of both copies.
#    How many bytes does it count in one phase?
# 2. A tile has rows of 64 halves (fp16 numbers). A row has 128 bytes, or 8 chunks of 16 bytes. WGMMA reads 8 chunks at
#    a time: chunk `p` of each of 8 rows. Without a swizzle, these 8 chunks would be in the same four
#    [banks](../glossary.md#bank) and cause conflicts. So the TMA writes chunk `p` of row `r` to position `p` XOR (`r`
#    mod 8) of this row. What is the byte offset of element (`row`, `column`) in the tile?

# %% cell="solution" id="ledgers"
def phase_bytes(block_m, block_n, block_k, itemsize):
    """Return how many bytes arrive in one phase of a stage's mbarrier. One element has `itemsize` bytes."""
    ### BEGIN SOLUTION
    return (block_m + block_n) * block_k * itemsize
    ### END SOLUTION


def swizzled(row, column):
    """Return the byte offset of element (row, column) in a swizzled fp16 tile whose rows have 64 elements."""
    ### BEGIN SOLUTION
    chunk = column // 8 ^ row % 8
    return row * 128 + chunk * 16 + column % 8 * 2
    ### END SOLUTION


# %% cell="check" exercise="16_matmul_hopper/phase_bytes"
lab.check("16_matmul_hopper/phase_bytes")

# %% cell="check" exercise="16_matmul_hopper/swizzled"
lab.check("16_matmul_hopper/swizzled")

# %%
lab.banks(lambda lane: 128 * (lane % 8), 16, title="chunk 0 of eight rows, no swizzle: all in the same four banks")

# %%
lab.banks(lambda lane: swizzled(lane % 8, 0), 16, title="the same chunks, at the addresses from your function")

# %% [markdown]
# ## Level 1: a tile in, a tile out
#
# Each function of our header `lab/hopper.cuh` is one or two [PTX](../glossary.md#ptx) instructions. The next code cell
# prints three of these functions. A `CUtensorMap` (a [tensor descriptor](../glossary.md#tensor-descriptor)) describes a
# matrix and the shape of the box that one copy moves. In Python, `lab.tensor_map(x, (rows, columns))` creates a
# `CUtensorMap` for matrix `x` and boxes of `rows` × `columns` elements. A kernel takes a `CUtensorMap` as a
# `__grid_constant__` parameter.
#
# | function | what it does |
# |---|---|
# | `mbarrier_init(&bar, arrivals)` | sets the number of arrivals per phase; only one thread may call it |
# | `mbarrier_fence()` | makes mbarriers visible to the TMA; call it after initializing them, in the same thread |
# | `mbarrier_expect(&bar, bytes)` | counts one arrival; the phase ends only after this many bytes have arrived, too |
# | `mbarrier_arrive(&bar)` | counts one arrival |
# | `mbarrier_wait(&bar, parity)` | waits for the end of the phase with this parity: even phases have 0, odd phases 1 |
# | `tma_load(to, &map, &bar, row, column)` | starts to copy the box at (row, column); `bar` counts the bytes |
# | `fence_async()` | lets the engines see this thread's stores to shared memory; call it before `__syncthreads()` |
# | `tma_store(&map, from, row, column)` | starts to copy a box to the matrix; skips elements outside the matrix |
# | `tma_commit()` | puts all stores that this thread started since the last commit into one group |
# | `tma_wait<0>()` | waits until the stores of all groups have read shared memory |
#
# Compute `y = factor * x`. Each block of 128 threads handles one box of 64 × 64 halves. One thread loads the box, all
# threads scale it in place, and one thread stores it. The TMA checks the bounds, so the kernel need not. The check
# requires that only the TMA accesses global memory. (The TMA needs rows that start at multiples of 16 bytes. If a
# matrix breaks this rule, `lab.aligned` copies it to a new array.)
#
# <details><summary>Hint 1</summary>Thread 0 initializes the mbarrier for one arrival, and calls
# <code>mbarrier_fence()</code>. All threads call <code>__syncthreads()</code>. Thread 0 then calls
# <code>mbarrier_expect</code> with <code>sizeof(tile)</code> bytes, and loads the tile. <i>All</i> threads wait for
# parity 0.</details>
# <details><summary>Hint 2</summary>Thread <code>t</code> scales elements <code>t</code>, <code>t + 128</code>, … in
# fp32, and then calls <code>fence_async()</code>. After that, all threads call <code>__syncthreads()</code>.</details>
# <details><summary>Hint 3</summary>Thread 0 stores the tile, commits the store and waits for it. Without this wait, the
# block could end before the TMA has read the tile.</details>

# %% cell="given"
from triton import cdiv

from labutils import hopper

hopper.show("mbarrier_expect", "mbarrier_wait", "tma_load")

# %% cell="solution" id="tma_scale"
# %%cuda
# #include <lab/hopper.cuh>
#
# // y = factor * x for fp16 matrices. A block of 128 threads scales the box of 64 x 64 elements at (row, column).
# __global__ void __launch_bounds__(128)
# tma_scale(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y, float factor) {
#     __shared__ __align__(128) half tile[64 * 64];
#     __shared__ uint64_t full;
#     int t = threadIdx.x, row = blockIdx.y * 64, column = blockIdx.x * 64;
#     // ### BEGIN SOLUTION
#     if (t == 0) {
#         mbarrier_init(&full, 1);
#         mbarrier_fence();
#     }
#     __syncthreads();
#     if (t == 0) {
#         mbarrier_expect(&full, sizeof(tile));
#         tma_load(tile, &x, &full, row, column);
#     }
#     mbarrier_wait(&full, 0);
#     for (int i = t; i < 64 * 64; i += 128) tile[i] = __float2half(factor * __half2float(tile[i]));
#     fence_async();
#     __syncthreads();
#     if (t == 0) {
#         tma_store(&y, tile, row, column);
#         tma_commit();
#         tma_wait<0>();
#     }
#     // ### END SOLUTION
# }


# %% cell="given" id="scale"
def scale(x, factor, y):
    x, out = lab.aligned(x), lab.aligned(y, keep=False)
    grid = cdiv(y.shape[1], 64), cdiv(y.shape[0], 64)
    tma_scale[grid, 128](lab.tensor_map(x, (64, 64)), lab.tensor_map(out, (64, 64)), factor)
    if out is not y:
        y.copy_(out)


lab.tiny("16_matmul_hopper/scale")

# %% cell="check" exercise="16_matmul_hopper/scale"
lab.check("16_matmul_hopper/scale")

# %% [markdown]
# Use this table when a check fails. (Words in parentheses are from the check's message.) Rows with `wgmma` are about
# level 2.
#
# | the check reports | a common cause |
# |---|---|
# | `deadlock` (lacks arrivals and bytes) | a missing `mbarrier_expect`, a wrong number of bytes, or a wrong parity |
# | `uninitialized-shared`, `missing-wait` | a tile is read before the wait for its copy |
# | `missing-wait` (overwrites) | a copy to a tile starts before all `wgmma` that read the tile are complete |
# | `missing-fence` | `fence_async()` is missing, or comes after `__syncthreads()` |
# | `missing-accumulation` | `add` is false too often, or products are missing: one `wgmma` covers 16 of 64 columns |
# | `wrong-values` | accumulators are read before `wgmma_wait`, `wgmma_commit` is missing, or an address is wrong |
#
# ## Level 2: multiply tiles
#
# Compute c = a · bᵀ with a (M, K), b (N, K) and c (M, N), in fp16 with fp32 accumulators. In shared memory, the tiles
# of a and b have swizzled rows of 64 halves along K.
#
# | function | what it does |
# |---|---|
# | `wgmma_tile(p)` | describes the tile at address `p` to WGMMA; for the next 16 columns along K, pass `p + 16` |
# | `wgmma_fence()` | tells WGMMA that the accumulators are ready; call it before the first product of a batch |
# | `wgmma(sum, a, b, add)` | starts sum += a · bᵀ, or sum = a · bᵀ if `add` is false; a and b come from `wgmma_tile` |
# | `wgmma_commit()` | puts all products started since the last commit into one batch |
# | `wgmma_wait<0>()` | waits until all batches are complete |
# | `wgmma_wait<0>(sum)` | waits until all batches are complete, and makes `sum` safe to read |
#
# One `wgmma` multiplies 64 rows of a by n rows of b, over 16 columns along K. Here n is 128, so each of the 128 threads
# holds 64 · 128 / 128 = 64 accumulators in `sum`.
#
# One warpgroup computes 128 × 128 elements of c. The accumulators of the upper 64 rows are in `top`, and those of the
# lower 64 rows are in `bottom`. An iteration covers 64 columns of a and b:
#
# 1. One thread starts the copies of both tiles, and all threads wait for the copies.
# 2. The threads together start eight products: four for `top`, and four for `bottom`.
# 3. All threads wait for the products, and then for each other at a barrier.
#
# The check requires that only the TMA loads from global memory.
#
# <details><summary>Hint 1</summary>One mbarrier is enough: iteration <code>s</code> waits for the end of phase
# <code>s</code>, which has parity <code>s % 2</code>.</details>
# <details><summary>Hint 2</summary>For k = 0, 16, 32, 48, call
# <code>wgmma(top, wgmma_tile(a_tile + k), wgmma_tile(b_tile + k), …)</code>. For <code>bottom</code>, the rows of a
# start at <code>a_tile + 64 * 64 + k</code>.</details>
# <details><summary>Hint 3</summary>The first product of <code>top</code> and the first of <code>bottom</code> must set
# the accumulators; all later products must add. So pass <code>s + k > 0</code> as <code>add</code>. End each iteration
# with <code>__syncthreads()</code>: all four warps must have read the tiles before the next copies overwrite
# them.</details>

# %% cell="solution" id="matmul_tile"
# %%cuda
# #include <lab/hopper.cuh>
#
# // Store a warpgroup's accumulators to c (M, N) at row m, column n. The index math follows wgmma's register layout.
# template <int COUNT>
# __device__ void store_sums(const float (&sum)[COUNT], half *c, int m, int n, int M, int N) {
#     int t = threadIdx.x % 128, row = m + t / 32 * 16 + t % 32 / 4, column = n + t % 4 * 2;
#     #pragma unroll
#     for (int i = 0; i < COUNT; i += 2) {
#         int r = row + i % 4 / 2 * 8, q = column + i / 4 * 8;
#         if (r < M && q < N) *reinterpret_cast<half2 *>(c + r * N + q) = __floats2half2_rn(sum[i], sum[i + 1]);
#     }
# }
#
# // c = a @ b^T: a (M, K), b (N, K), c (M, N). The boxes of a and of b have 128 x 64 elements.
# // A block is one warpgroup and computes 128 x 128 elements of c.
# __global__ void __launch_bounds__(128)
# matmul_tile(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, half *c, int M, int N,
#             int K) {
#     extern __shared__ __align__(1024) half memory[];
#     half *a_tile = memory, *b_tile = memory + 128 * 64;
#     __shared__ uint64_t full;
#     int m0 = blockIdx.y * 128, n0 = blockIdx.x * 128, steps = (K + 63) / 64;
#     float top[64], bottom[64];
#     if (threadIdx.x == 0) {
#         mbarrier_init(&full, 1);
#         mbarrier_fence();
#     }
#     __syncthreads();
#     for (int s = 0; s < steps; s++) {
#         // ### BEGIN SOLUTION
#         if (threadIdx.x == 0) {
#             mbarrier_expect(&full, 2 * 128 * 64 * sizeof(half));
#             tma_load(a_tile, &a, &full, m0, s * 64);
#             tma_load(b_tile, &b, &full, n0, s * 64);
#         }
#         mbarrier_wait(&full, s % 2);
#         wgmma_fence();
#         #pragma unroll
#         for (int k = 0; k < 64; k += 16) {
#             wgmma(top, wgmma_tile(a_tile + k), wgmma_tile(b_tile + k), s + k > 0);
#             wgmma(bottom, wgmma_tile(a_tile + 64 * 64 + k), wgmma_tile(b_tile + k), s + k > 0);
#         }
#         wgmma_commit();
#         wgmma_wait<0>();
#         __syncthreads();
#         // ### END SOLUTION
#     }
#     wgmma_wait<0>(top);
#     wgmma_wait<0>(bottom);
#     store_sums(top, c, m0, n0, M, N);
#     store_sums(bottom, c, m0 + 64, n0, M, N);
# }


# %% cell="given" id="tile"
def boxes(x, rows, columns=64):
    return lab.tensor_map(x, (rows, columns), swizzle=128)


def in_rows(a, b, c, launch):
    """Call launch(a, b, c, M, N, K) on arrays aligned for the TMA; rows of c are padded to a multiple of 16 bytes."""
    a, b, out = lab.aligned(a), lab.aligned(b), lab.padded(c, keep=False)
    launch(a, b, out, *out.shape, a.shape[1])
    if out is not c:
        c.copy_(out[:, : c.shape[1]])


def tile(a, b, c):
    grid, shared = (cdiv(c.shape[1], 128), cdiv(c.shape[0], 128)), 2 * 128 * 64 * 2
    launch = matmul_tile[grid, 128, shared]
    in_rows(a, b, c, lambda a, b, c, *sizes: launch(boxes(a, 128), boxes(b, 128), c, *sizes))


# %% cell="check" exercise="16_matmul_hopper/tile"
lab.check("16_matmul_hopper/tile")

# %%
lab.claims("16_matmul_hopper")  # a two-minute quiz: predict each number, then compare
# This cell counts instructions in the compiled machine code; it needs no GPU. Which belong to the
# TMA, and which to WGMMA?
hopper.instructions(tma_scale, matmul_tile)

# %% [markdown]
# **Next.** `16_matmul_ring` overlaps copies and products.
#
# **Reading.** [PTX ISA](https://docs.nvidia.com/cuda/parallel-thread-execution/): the chapters on mbarrier, tensor
# copies and wgmma explain every function of `lab/hopper.cuh`.

# %% [markdown]
# # Coalesce memory accesses
#
# **You will** count the [sectors](../glossary.md#sector) that a load or store of a [warp](../glossary.md#warp) touches,
# fix a [matmul](../glossary.md#matmul) whose loads touch far too many sectors, and transpose a matrix with loads and
# stores that are both [coalesced](../glossary.md#coalesced-access).
#
# **You will learn to**
# - predict how many sectors a [request](../glossary.md#request) touches from the element that each lane accesses;
# - choose whether `threadIdx.x` counts rows or columns of a matrix, and explain why the opposite choice is slow;
# - reorder data through [shared memory](../glossary.md#shared-memory) when loads and stores need different orders.
#
# **You need** `07_elementwise_cuda`: [grids](../glossary.md#grid), [blocks](../glossary.md#block),
# [guards](../glossary.md#boundary-guard).
#
# About 75 minutes. You need a GPU only to measure times.
#
# ## 1 Sectors
#
# When a warp executes a load, its 32 [lanes](../glossary.md#lane) make one request. Data moves between memory and the
# GPU in whole *sectors* of {claim: sector_bytes}: reading one byte of a sector moves all 32. Four adjacent sectors form
# a [cache line](../glossary.md#cache-line) of {claim: line_bytes}. A cache looks up whole lines, but loads each sector
# separately. A request is *coalesced* if it touches only as many sectors as its bytes need. 32 floats, for example,
# need 4 sectors. It does not matter which lane accesses which of these floats. In the widget below, lane k loads
# element `offset + k · stride`, and each element has `width` bytes. Find two settings of the widget for which exactly
# twice as many bytes move as the lanes need.
#
# **Predict.** Write `sectors_per_request`: how many sectors does a request touch for a given offset, stride and width?
# The argument `first` is the `offset` of the widget, and `itemsize` is its `width`. The array begins at a sector
# boundary, and no element spans two sectors.

# %% cell="setup"

# %%
lab.widgets.coalescing(stride=1, offset=1)


# %% cell="solution" id="sectors_per_request"
def sectors_per_request(stride, itemsize, first):
    """Return the number of sectors that lanes 0 to 31 touch.

    Lane k loads element first + k * stride. Each element has itemsize bytes.
    """
    ### BEGIN SOLUTION
    touched = set()
    for lane in range(32):
        touched.add((first + lane * stride) * itemsize // 32)
    return len(touched)
    ### END SOLUTION


# %% cell="check" exercise="08_coalescing/sectors_per_request"
lab.check("08_coalescing/sectors_per_request")

# %% [markdown]
# ### Arrays of structures
#
# Points in space, (x, y, z), can be stored as an [array of structures](../glossary.md#array-of-structures) (x y z x y z
# …), or as a [structure of arrays](../glossary.md#structure-of-arrays) (all x, then all y, then all z). If each lane
# loads one point, a warp makes three load requests: for x, for y and for z. What is the stride of these requests in an
# array of structures? How many sectors does your function return for this stride? The code cell in section 2 that
# defines `loads_of` prints the sectors per load request of both layouts: compare your numbers with these.
#
# ## 2 Fix a matmul
#
# `matmul_slow_kernel` computes `c = a · b` in [fp32](../glossary.md#fp32), with one thread per element of `c`. The
# kernel is correct but slow. In a block of 32 × 32 threads, the 32 lanes of a warp have different values of
# `threadIdx.x` and the same `threadIdx.y`. The cell that defines `loads_of` also prints the source of
# `matmul_slow_kernel` with the sectors per request of each line. Which of the two loads in the loop makes neighboring
# lanes read elements that are a whole row apart?

# %% cell="given" id="lengths"
# %%cuda
# __global__ void length_aos(float* out, const float* points, int n) {
#     const int i = blockIdx.x * blockDim.x + threadIdx.x;
#     if (i < n) {
#         const float x = points[3 * i], y = points[3 * i + 1], z = points[3 * i + 2];
#         out[i] = sqrtf(x * x + y * y + z * z);
#     }
# }
#
# __global__ void length_soa(float* out, const float* xs, const float* ys, const float* zs, int n) {
#     const int i = blockIdx.x * blockDim.x + threadIdx.x;
#     if (i < n) {
#         const float x = xs[i], y = ys[i], z = zs[i];
#         out[i] = sqrtf(x * x + y * y + z * z);
#     }
# }
#
# __global__ void matmul_slow_kernel(float* c, const float* a, const float* b, int M, int N, int K) {
#     const int m = blockIdx.x * blockDim.x + threadIdx.x;
#     const int n = blockIdx.y * blockDim.y + threadIdx.y;
#     if (m < M && n < N) {
#         float sum = 0.0f;
#         for (int k = 0; k < K; k++) {
#             const float left = a[m * K + k];
#             const float right = b[k * N + n];
#             sum += left * right;
#         }
#         c[m * N + n] = sum;
#     }
# }

# %% cell="given" id="matmul"
import torch


def cdiv(n, block):
    return (n + block - 1) // block


def matmul_slow(a, b, c):
    (M, K), N = a.shape, b.shape[1]
    matmul_slow_kernel[(cdiv(M, 32), cdiv(N, 32)), (32, 32)](c, a, b, M, N, K)


def matmul(a, b, c):  # launches your kernel
    (M, K), N = a.shape, b.shape[1]
    matmul_kernel[(cdiv(N, 32), cdiv(M, 32)), (32, 32)](c, a, b, M, N, K)


def loads_of(launch):
    """Return the sectors per load request of the kernels that `launch()` launches. Every GPU has the same count."""
    with lab.record() as r:
        launch()
    t = r.totals()
    return t["global_load_sectors"] / t["global_load_requests"]


x, y, z, out = torch.rand(4, 1024)
points = torch.stack([x, y, z], dim=1)
print("structures", loads_of(lambda: length_aos[4, 256](out, points, 1024)), "sectors per load request")
print("arrays    ", loads_of(lambda: length_soa[4, 256](out, x, y, z, 1024)), "sectors per load request")
a, b, c = torch.rand(64, 64), torch.rand(64, 64), torch.empty(64, 64)
with lab.record():
    matmul_slow(a, b, c)
lab.annotate(matmul_slow_kernel)

# %% [markdown]
# The three loads of `length_aos` touch the *same* 12 sectors, which hold 32 points of 12 bytes. If these sectors stay
# in the [L1 cache](../glossary.md#l1-cache) until the third load, they come from memory only once, but L1 delivers each
# sector three times. A kernel that needs only the x of each point would still move all 12 bytes per point.
#
# **Your [kernel](../glossary.md#kernel):** write the same matmul with coalesced loads and stores. Each block computes a
# [tile](../glossary.md#tile) of 32 × 32 elements of `c`. In the launcher `matmul`, unlike in `matmul_slow`,
# `blockIdx.x` counts the tiles along a row of `c`, and `blockIdx.y` counts the tiles along a column. You get 2 points
# for a correct result, 1 point if loads touch at most 4 sectors per request on average, and 1 point if stores do.
#
# | argument | shape | meaning |
# |---|---|---|
# | `a` | (M, K) | input, stored row by row |
# | `b` | (K, N) | input, stored row by row |
# | `c` | (M, N) | output, stored row by row; one thread computes one element |
#
# <details><summary>Hint 1</summary>Elements of a row are adjacent in memory. Neighboring lanes should have neighboring
# values of the index that moves along a row of <code>b</code> and of <code>c</code>.</details>
# <details><summary>Hint 2</summary>The index along a row of <code>b</code> and of <code>c</code> is <code>n</code>.
# Which of <code>threadIdx.x</code> and <code>threadIdx.y</code> differs between neighboring lanes?</details>
# <details><summary>Hint 3</summary>Compute <code>n</code> from the variables that end in <code>.x</code>, and
# <code>m</code> from those that end in <code>.y</code>. All lanes of a warp then read the same element of
# <code>a</code>, so the request for <code>a</code> touches one sector.</details>
#
# Another course claims that coalesced accesses make such a matmul {claim: claimed_factor} times as fast:
# {claim: claimed_fast} instead of {claim: claimed_slow}. (1 GFLOP/s is 10⁹ [FLOPs](../glossary.md#flop) per second.)
# The cell after the check prints the sectors per load request of both kernels, and on a GPU also their GFLOP/s. What
# speedup would you predict from the sectors? Compare it with the claim and with your measurement.

# %% cell="solution" id="matmul_kernel"
# %%cuda
# __global__ void matmul_kernel(float* c, const float* a, const float* b, int M, int N, int K) {
#     // c[m][n] = sum over k of a[m][k] * b[k][n]; one thread computes one element of c.
#     // ### BEGIN SOLUTION
#     const int m = blockIdx.y * blockDim.y + threadIdx.y;
#     const int n = blockIdx.x * blockDim.x + threadIdx.x;
#     // ### END SOLUTION
#     if (m < M && n < N) {
#         float sum = 0.0f;
#         for (int k = 0; k < K; k++) {
#             const float left = a[m * K + k];
#             const float right = b[k * N + n];
#             sum += left * right;
#         }
#         c[m * N + n] = sum;
#     }
# }


# %% cell="check" exercise="08_coalescing/repair_matmul"
lab.tiny("08_coalescing/repair_matmul")
lab.check("08_coalescing/repair_matmul")


# %%
def measure_the_claim():
    print("sectors per load request:", loads_of(lambda: matmul_slow(a, b, c)), loads_of(lambda: matmul(a, b, c)))
    timed = [lab.benchmark("08_coalescing/repair_matmul", fn) for fn in (matmul_slow, matmul)]
    if all(timed):
        slow, fast = (t.cost.flops / t.samples["yours"].median / 1e9 for t in timed)
        print(f"measured: {slow:.0f} and {fast:.0f} GFLOP/s, {fast / slow:.1f} ×, on {timed[0].gpu}")


measure_the_claim()

# %% [markdown]
# If a check of part 2 or 3 fails, use this table. For part 2, only the first row of the table matters. In part 3,
# `tile` is the array in shared memory, and `tx` is `threadIdx.x`.
#
# | the check reports | common cause |
# |---|---|
# | 16.5 or 32 sectors per request | neighboring lanes access a column: `threadIdx.x` is multiplied by a row length |
# | `missing-syncthreads` | the tile is read before other warps have filled it |
# | `uninitialized-shared` | a thread writes fewer than four elements of the tile, so some rows are not written |
# | `transposed` | the kernel writes `tile[y][tx]` and also reads `tile[y][tx]`: swap the indices in one place |
# | `barrier-divergence` | some threads skip `__syncthreads()`, because it is inside a guard or after a `return` |
# | `tail-unmasked` | the load or the store has no guard |
# | `first-block-only` | the guard of the store compares rows with M and columns with N, although `out` is N × M |
#
# ## 3 Transpose through shared memory
#
# Compute `out[n][m] = x[m][n]`. Suppose that each thread copies one element directly. If a warp loads a row of `x`, it
# stores a column of `out`, so each store touches 32 sectors. If the warp stores a row of `out`, it loads a column of
# `x`, so each load touches 32 sectors. The solution is *shared memory*, a small, fast memory that the threads of a
# block share. Shared memory has no sectors: reading a column moves no unused bytes. First, each warp copies rows of `x`
# to the rows of a tile of 32 × 32 elements. Each thread then waits at the [barrier](../glossary.md#barrier)
# `__syncthreads()` until the tile is complete. Last, each warp stores columns of the tile as rows of `out`. In the
# diagram below, `bx` and `by` are `blockIdx.x` and `blockIdx.y`:
#
# ```
#   x, tile (by, bx)             tile in shared memory            out, tile (bx, by)
#   a b c d   lanes along →      a b c d   read down ↓            a e i m   lanes along →
#   e f g h   a row of x         e f g h   a column               b f j n   a row of out
# ```
#
# A block has 32 × 8 threads, so each of its eight warps loads one row of a tile at a time. Each thread moves 4 elements
# of one column; they are 8 rows apart. M and N need not be multiples of 32, so a tile at the right or lower edge may be
# partly outside the matrix. Guard the load and the store, but not the barrier. You get points as in part 2.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x` | (M, N) | input, stored row by row |
# | `out` | (N, M) | output, stored row by row |
#
# <details><summary>Hint 1</summary>Write two similar loops with <code>__syncthreads()</code> between them. In both
# loops, <code>threadIdx.x</code> moves along a row in global memory.</details>
# <details><summary>Hint 2</summary>Let <code>tx</code> be <code>threadIdx.x</code>, and let <code>y</code> be
# <code>threadIdx.y</code> plus 0, 8, 16 and 24. The first loop copies the element in row <code>by * 32 + y</code> and
# column <code>bx * 32 + tx</code> of <code>x</code> to <code>tile[y][tx]</code>. In the second loop, each warp stores
# 32 elements of one row of <code>out</code> for each <code>y</code>.</details>
# <details><summary>Hint 3</summary>The element in row <code>bx * 32 + y</code> and column <code>by * 32 + tx</code> of
# <code>out</code> comes from <code>tile[tx][y]</code>. <code>out</code> has N rows and M columns, so the guard of the
# store differs from the guard of the load.</details>

# %% cell="solution" id="transpose_kernel"
# %%cuda
# constexpr int TILE = 32;  // side of a tile, and blockDim.x
# constexpr int ROWS = 8;   // blockDim.y; a thread moves one element in every 8th row of the tile
#
# __global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
#     // out[n][m] = x[m][n]; one block transposes one tile of TILE * TILE elements.
#     __shared__ float tile[TILE][TILE];
#     // ### BEGIN SOLUTION
#     const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE;
#     #pragma unroll
#     for (int k = 0; k < TILE; k += ROWS) {
#         const int y = threadIdx.y + k, m = first_m + y, n = first_n + threadIdx.x;
#         if (m < M && n < N) tile[y][threadIdx.x] = x[m * N + n];
#     }
#     __syncthreads();
#     #pragma unroll
#     for (int k = 0; k < TILE; k += ROWS) {
#         const int y = threadIdx.y + k, n = first_n + y, m = first_m + threadIdx.x;
#         if (n < N && m < M) out[n * M + m] = tile[threadIdx.x][y];
#     }
#     // ### END SOLUTION
# }


# %% cell="given" id="transpose"
def transpose(x, out):
    M, N = x.shape
    transpose_kernel[(cdiv(N, 32), cdiv(M, 32)), (32, 8)](out, x, M, N)


lab.tiny("08_coalescing/transpose")

# %% cell="check" exercise="08_coalescing/transpose"
lab.check("08_coalescing/transpose")

# %%
lab.claims("08_coalescing")  # a two-minute quiz: predict each number, then compare
with lab.record():
    transpose(torch.rand(64, 64), torch.empty(64, 64))
lab.annotate(transpose_kernel)  # `degree`: how many times as long as necessary an access to shared memory takes
print(lab.benchmark("08_coalescing/transpose") or "")
lab.play(transpose, torch.rand(40, 40), torch.empty(40, 40))  # step through: which sectors, which banks, who waits?

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** The slow matmul loads 16.5 sectors per request, the mean of 32 (for `a`) and 1 (for `b`). The fixed
# matmul loads 2.5, the mean of 1 (for `a`) and 4 (for `b`). So the number of sectors falls by a factor of 6.6. The
# other course claims that the time falls by a factor of {claim: claimed_factor}. Give one reason why the time may fall
# by *more* than a factor of 6.6, and one reason why the time may fall by less.
#
# ### BEGIN SOLUTION
# Time may fall by more because L1 looks up lines, not sectors. The slow request for a touches 32 different lines, which
# L1 looks up one after another, and the request for b touches one line. The fixed kernel's two requests touch one line
# each: 33 lookups become 2. Time may fall by less because of caches. The 32 sectors that the slow kernel loads for one
# k also hold the elements for the next 7 values of k, so most of its sectors come from L1 or L2, not from memory. Also,
# the fixed kernel is no longer bound by sectors but by the number of load instructions: two per multiplication.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** `08_hunt` hides bugs in kernels like these. In your transpose, reading a column of the tile takes 32
# times as long as reading a row; `09_shared_memory` fixes this. The matmul still loads each element of `a` and `b` many
# times; `15_matmul_cuda` fixes that.
#
# **In practice** PyTorch offers memory layouts, such as `channels_last` (NHWC) for images, with which its kernels make
# coalesced accesses. `.contiguous()` of a transposed matrix copies it row by row, as your transpose does.
#
# **Reading.** [CUDA C++ Best Practices Guide, coalesced access to global
# memory](https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/#coalesced-access-to-global-memory): this section
# gives the rules, and measures how strides and offsets change the bandwidth.

# %% [markdown]
# # Coalesce: ask memory for whole sectors
#
# **You will** count the sectors of a request, repair a matmul that asks for far too many, and transpose a matrix so
# that both its loads and its stores are neat.
#
# **You will learn to**
# - predict from index arithmetic how many sectors a warp's request touches;
# - see which thread index belongs to which matrix axis, and why the other choice is slow;
# - pass data through shared memory when reading and writing want different orders.
#
# **You need** `07_elementwise_cuda`: grids, blocks, guards.
#
# About 75 minutes. Works without a GPU: sectors are counted exactly; only times need one.

# %% cell="setup"

# %% [markdown]
# ## 1 Sectors
#
# When a warp executes a load, its 32 lanes make one *request*. Memory answers in *sectors* of 32 bytes, and never in
# less: whoever needs one byte of a sector moves all 32. Four neighbouring sectors are one *line* of 128 bytes, the unit
# in which caches keep their books. A request is *coalesced* if it touches no more sectors than its bytes would fill:
# 4 for 32 floats. The order of lanes does not matter, and several lanes may share a sector. In the picture lanes run
# backwards, which costs nothing, and end at element 3, which costs a fifth sector.
#
# **Predict.** Lane k loads element `first + k · stride` of an array that begins at a sector's first byte. How many
# sectors does the request touch? (An element never lies across two sectors.)

# %% cell="given"
import torch

lab.coalescing(lambda lane: 4 * (34 - lane), title="lane k loads x[34 - k], fp32")


# %% cell="solution" id="sectors_per_request"
def sectors_per_request(stride, itemsize, first):
    """Sectors of 32 bytes that lanes 0 to 31 touch; lane k loads element first + k * stride of itemsize bytes."""
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
# Points (x, y, z) can lie in memory as one *array of structures*, x y z x y z …, or as a *structure of arrays*, all x,
# then all y, then all z. Each lane wants one point. Which of your numbers above is the first layout's?

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


# %% cell="given"
def loads_of(launch):
    """Sectors per load request of whatever `launch()` launches; the same with and without a GPU."""
    with lab.record() as r:
        launch()
    t = r.totals()
    return t["global_load_sectors"] / t["global_load_requests"]


x, y, z, out = torch.rand(4, 1024)
points = torch.stack([x, y, z], dim=1)
print("structures", loads_of(lambda: length_aos[4, 256](out, points, 1024)), "sectors per load request")
print("arrays    ", loads_of(lambda: length_soa[4, 256](out, x, y, z, 1024)), "sectors per load request")

# %% [markdown]
# The three loads of the first kernel touch the *same* 12 sectors. If they stay in the L1 cache for so long, memory is
# read only once, and the price is three times the work for L1. A kernel that wants only x pays in full: it uses a third
# of what it moves.
#
# ## 2 Repair a matmul
#
# `c = a · b`, fp32, one thread for each element of c. This kernel is right and slow. Threads are put into warps along
# `threadIdx.x`: the 32 lanes of a warp differ in `threadIdx.x` and agree in `threadIdx.y`. Read the counts behind each
# line: for which of the two loads do the lanes lie a whole row apart?

# %% cell="given" id="matmul_slow_kernel"
# %%cuda
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


# %% cell="given"
def cdiv(n, block):
    return (n + block - 1) // block


def matmul_slow(a, b, c):
    (M, K), N = a.shape, b.shape[1]
    matmul_slow_kernel[(cdiv(M, 32), cdiv(N, 32)), (32, 32)](c, a, b, M, N, K)


a, b, c = torch.rand(64, 64), torch.rand(64, 64), torch.empty(64, 64)
with lab.record():
    matmul_slow(a, b, c)
lab.annotate(matmul_slow_kernel)

# %% [markdown]
# Write the same kernel with neat loads and stores. The launcher below has changed too: its grid has as many blocks in x
# as tiles of 32 lie along a **row** of c, and in y as tiles lie along a column.
#
# | argument | shape | meaning |
# |---|---|---|
# | `a`, `b` | (M, K), (K, N) | inputs, row after row |
# | `c` | (M, N) | output; one thread computes one element |
#
# <details><summary>Hint 1</summary>Elements of a row are neighbours in memory. Neighbouring lanes should differ in the
# index that walks along a row of b and of c.</details>
# <details><summary>Hint 2</summary>That is n. Which of threadIdx.x and threadIdx.y differs between neighbouring
# lanes?</details>
# <details><summary>Hint 3</summary>n comes from everything that ends in .x, m from everything that ends in .y. All
# lanes of a warp then read the same element of a: one sector.</details>
#
# Popular course material says that this swap makes a naive matmul 13 times as fast, 3171 against 243 GFLOP/s. Below the
# check a cell puts your GPU's answer beside it. What do the sectors predict?

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


# %% cell="given" id="matmul"
def matmul(a, b, c):
    (M, K), N = a.shape, b.shape[1]
    matmul_kernel[(cdiv(N, 32), cdiv(M, 32)), (32, 32)](c, a, b, M, N, K)


lab.tiny("08_coalescing/repair_matmul")

# %% cell="check" exercise="08_coalescing/repair_matmul"
lab.check("08_coalescing/repair_matmul")


# %%
def measure_the_claim():
    print("sectors per load request:", loads_of(lambda: matmul_slow(a, b, c)), loads_of(lambda: matmul(a, b, c)))
    timed = [lab.benchmark("08_coalescing/repair_matmul", fn) for fn in (matmul_slow, matmul)]
    if all(timed):
        slow, fast = (t.cost.flops / t.samples["yours"].median / 1e9 for t in timed)
        print("claimed:  243 and 3171 GFLOP/s, 13.0 ×")
        print(f"measured: {slow:.0f} and {fast:.0f} GFLOP/s, {fast / slow:.1f} ×, on {timed[0].gpu}")


measure_the_claim()

# %% [markdown]
# When a check fails, or points for counts are missing, here and in the next part:
#
# | what it says | a common cause |
# |---|---|
# | 16.5 or 32 sectors per request | lanes walk down a column: `threadIdx.x` is multiplied by a row length |
# | `missing-syncthreads` | the tile is read before other warps have filled it |
# | `uninitialised-shared` | rows of the tile were left out: each thread has four |
# | `transposed` | `tile[y][x]` is read where `tile[x][y]` was meant |
# | `barrier-divergence` | `__syncthreads()` inside the guard, or a `return` before it |
# | `tail-unmasked`, `first-block-only` | a guard is missing, or the second one still has M and N as in the first |
#
# ## 3 Transpose through shared memory
#
# `out[n][m] = x[m][n]`. Read along rows, and you write down columns; read down columns, and you write along rows: one
# side always pays 32 sectors for a request. The way out is *shared memory*, a small fast memory that the threads of a
# block share. There, jumping about does not cost sectors. A block takes a tile of 32 × 32 in, row by row, waits at
# `__syncthreads()` until all of it is there, and puts it out, row by row of `out`.
#
# ```
#   x, tile (by, bx)             tile in shared memory            out, tile (bx, by)
#   a b c d   lanes along →      a b c d   read down ↓            a e i m   lanes along →
#   e f g h   a row of x         e f g h   a column               b f j n   a row of out
# ```
#
# A block has 32 × 8 threads: each takes 4 elements of the tile, 8 rows apart. M and N are any numbers, so tiles at the
# right and lower edges are partly empty: guard both passes, but not the barrier.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x` | (M, N) | input, row after row |
# | `out` | (N, M) | output, row after row |
#
# <details><summary>Hint 1</summary>Two loops of the same form, with <code>__syncthreads()</code> between them. In both,
# threadIdx.x is what walks along a row of global memory.</details>
# <details><summary>Hint 2</summary>First loop: tile[y][x], with y = threadIdx.y + 0, 8, 16 and 24, takes the element
# of x in row by·32 + y and column bx·32 + x. Second loop: the same y and x, but now y counts rows of out.</details>
# <details><summary>Hint 3</summary>Row bx·32 + y of out, column by·32 + x, comes from tile[x][y]. Its guard has changed
# sides: rows of out are limited by N, columns by M.</details>

# %% cell="solution" id="transpose_kernel"
# %%cuda
# constexpr int TILE = 32;  // side of a tile, and blockDim.x
# constexpr int ROWS = 8;   // blockDim.y: a thread takes every 8th row of its tile
#
# __global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
#     // out[n][m] = x[m][n]; one block turns one tile of TILE * TILE elements.
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
with lab.record():
    transpose(torch.rand(64, 64), torch.empty(64, 64))
lab.annotate(transpose_kernel)  # global lines: 4 per request; look at `degree` in the line that reads the tile
print(lab.benchmark("08_coalescing/transpose") or "")

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** The repaired matmul loads 2.5 sectors per request instead of 16.5, a factor of 6.6; the claim is a factor
# of 13 in time. Give one reason why time may fall by *more* than the sectors, and one why it may fall by less.
#
# ### BEGIN SOLUTION
# More: L1 looks up lines, not sectors. The slow request for a touches 32 different lines, one look-up after the other,
# where the repaired kernel's two requests touch one line each: 33 look-ups become 2.
# Less: caches. The 32 sectors that the slow kernel loads for one k hold the elements for the next 7 values of k too, so
# most of its sectors come from L1 or L2, not from memory. And the repaired kernel is not bound by sectors any more but
# by the number of load instructions, two for each multiplication.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** `09_shared_memory` removes what `lab.annotate` still shows: the `degree` of 32 where the tile is
# read. `15_matmul_cuda` goes on with the matmul, which still loads each element of a and b thousands of times. Try a
# block of 16 × 16 in `matmul`: what do sectors per request become, and why is that no gain?
#
# **In practice** PyTorch chooses layouts so that its kernels coalesce (`channels_last` is such a choice), and
# `.contiguous()` is often nothing but this transpose.
#
# **Reading.** [CUDA C++ Best Practices Guide, coalesced access to global
# memory](https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/#coalesced-access-to-global-memory): the rules, with
# strides and offsets measured.

# %% [markdown]
# # Feed Hopper's tensor cores from a ring of tiles
#
# **You will** let Hopper's copy engine move a tile, let four warps multiply tiles straight from shared memory, and join
# the two into a pipeline in which one warp copies and eight multiply.
#
# **You will learn to**
# - count bytes and arrivals with an mbarrier, and keep its phases apart;
# - describe tiles, swizzled against bank conflicts, to the TMA and to WGMMA;
# - build a ring of stages between a producer and its consumers;
# - read what clusters, multicast and a persistent grid add on the way to the library's speed.
#
# **You need** `14_matmul_triton` and `15_matmul_cuda`.
#
# About 150 minutes. Works without a GPU: the emulator does what these instructions do, and the compiler makes the real
# ones. Running them takes a Hopper GPU (H100, H200), compute capability 9.0.

# %% cell="setup"

# %% [markdown]
# ## Predict: a machine that is told once
#
# In unit 15 every thread computed addresses, loaded, stored, waited. Hopper has engines that are told once:
#
# - **TMA**: *one* thread starts the copy of a box of a matrix to shared memory. Outside the matrix it reads zeros.
# - **mbarrier**: 8 bytes in shared memory that count arrivals of threads, and bytes that copies bring.
# - **WGMMA**: four warps, a warpgroup, multiply a 64 × 16 tile by a 16 × n one. B lies in shared memory, A there or in
#   registers; the accumulators are in registers.
#
# All of them work while your threads go on. So the art is to wait for the right thing.
#
# 1. A stage holds a tile of A, `block_m` × `block_k`, and one of B, `block_n` × `block_k`. How many bytes does its
#    barrier wait for?
# 2. How many stages of fp16 fit into the 227 KB that a block can have, when `other` bytes are taken?
# 3. A tile has rows of 64 halves, 128 bytes. WGMMA reads 8 rows at a time, and without more ado they would all start in
#    the same bank. So the TMA swizzles: in row r, the piece of 16 bytes with number p goes to place p XOR (r mod 8). At
#    which byte of the tile is element (`row`, `column`)?
# 4. `cluster` blocks that lie below each other in C need the same tile of B. Each fetches its own tile of A, and
#    1 / `cluster` of B's for all of them. How many FLOPs, in fp16, for each byte that a block fetches?


# %% cell="solution" id="ledgers"
def phase_bytes(block_m, block_n, block_k, itemsize):
    """Bytes that arrive in one phase of a stage's barrier."""
    ### BEGIN SOLUTION
    return (block_m + block_n) * block_k * itemsize
    ### END SOLUTION


def stages(block_m, block_n, block_k, other):
    """Stages of fp16 tiles beside `other` bytes in 227 KB."""
    ### BEGIN SOLUTION
    return (227 * 1024 - other) // phase_bytes(block_m, block_n, block_k, 2)
    ### END SOLUTION


def swizzled(row, column):
    """Byte of element (row, column) in a tile of fp16 whose rows have 64 elements."""
    ### BEGIN SOLUTION
    piece = column // 8 ^ row % 8
    return row * 128 + piece * 16 + column % 8 * 2
    ### END SOLUTION


def cluster_intensity(block_m, block_n, cluster):
    """FLOPs for each byte that a block fetches, where `cluster` blocks share each tile of B."""
    ### BEGIN SOLUTION
    return 2 * block_m * block_n / (2 * (block_m + block_n / cluster))
    ### END SOLUTION


# %% cell="check" exercise="16_matmul_hopper/phase_bytes"
lab.check("16_matmul_hopper/phase_bytes")

# %% cell="check" exercise="16_matmul_hopper/stages"
lab.check("16_matmul_hopper/stages")

# %% cell="check" exercise="16_matmul_hopper/swizzled"
lab.check("16_matmul_hopper/swizzled")

# %% cell="check" exercise="16_matmul_hopper/cluster_intensity"
lab.check("16_matmul_hopper/cluster_intensity")

# %%
lab.banks(lambda lane: 128 * (lane % 8), 16, title="pieces 0 of eight rows: without a swizzle one bank group has all")
# %%
lab.banks(lambda lane: swizzled(lane % 8, 0), 16, title="the same pieces, where your function says they are")

# %% [markdown]
# ## Level 1: a tile in, a tile out
#
# Each instruction of this unit has a name in `lab/hopper.cuh`, a header of ours. Below is how it reads: one PTX
# instruction, or two. A `CUtensorMap` describes a matrix and the box that one copy moves; Python makes it with
# `lab.tensor_map(x, (rows, columns))`.
#
# | function | what it does |
# |---|---|
# | `mbarrier_init(&bar, arrivals)` | one thread; then `mbarrier_fence()`, then `__syncthreads()` |
# | `mbarrier_expect(&bar, bytes)` | arrives, and lets the phase wait for that many bytes too |
# | `mbarrier_arrive(&bar)` | arrives |
# | `mbarrier_wait(&bar, parity)` | waits for the end of the phase of this parity; the first has parity 0 |
# | `tma_load(to, &map, &bar, row, column)` | starts the copy of the box at (row, column); its bytes are told to `bar` |
# | `fence_async()` | what this thread stored to shared memory may be read by the engines; before a barrier |
# | `tma_store(&map, from, row, column)` | starts the copy back; what lies outside the matrix is not written |
# | `tma_commit()`, `tma_wait<0>()` | ends a group of stores; waits until the groups have read shared memory |
#
# Write y = factor · x. A block of 128 threads has one box of 64 × 64 halves: one thread brings it, all threads scale it
# where it lies, one thread takes it back. No guard is needed anywhere. (Rows must begin at multiples of 16 bytes:
# `lab.aligned` in the launcher copies matrices whose rows do not.)
#
# <details><summary>Hint 1</summary>Thread 0: init with one arrival, fence. Barrier of threads. Thread 0: expect
# <code>sizeof(tile)</code> bytes, then load. <i>All</i> threads: wait for parity 0.</details>
# <details><summary>Hint 2</summary>Thread t scales elements t, t + 128, … in fp32, and calls
# <code>fence_async()</code>. Then a barrier of threads.</details>
# <details><summary>Hint 3</summary>Thread 0: store, commit, and wait: shared memory must live until it has been
# read.</details>

# %% cell="given"
from triton import cdiv

from labutils import hopper

hopper.show("mbarrier_expect", "mbarrier_wait", "tma_load")

# %% cell="solution" id="tma_scale"
# %%cuda
# #include <lab/hopper.cuh>
#
# // y = factor * x, matrices of fp16. A block of 128 threads scales a box of 64 x 64, at (row, column).
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
# When a check of this unit fails:
#
# | what it says | a common cause |
# |---|---|
# | `deadlock` … lacks arrivals and bytes | nobody expects, the bytes are miscounted, or parities are mixed up |
# | `uninitialised-shared`, `missing-wait` | a tile is read before its copy was waited for |
# | `missing-wait` … overwrites | a tile is given back before the products that read it are done |
# | `missing-fence` | `fence_async()` is missing, or stands after the barrier |
# | `missing-accumulation` | `add` is false too often, or one `wgmma`, 16 deep, for a tile 64 deep |
# | `wrong-values` | sums used before `wgmma_wait`; no `wgmma_commit`; a tile at the wrong place |
#
# ## Level 2: a product of tiles
#
# c = a · bᵀ with a (M, K), b (N, K), c (M, N), fp16 with sums in fp32. b lies as the weights of a linear layer do. Both
# tiles have rows along K, 64 halves, swizzled.
#
# | function | what it does |
# |---|---|
# | `wgmma_tile(p)` | how WGMMA reads the tile at p; 16 columns further along K is p + 16 halves |
# | `wgmma_fence()` | before the first product of a batch: registers are ready |
# | `wgmma(sum, a, b, add)` | starts sum += a · bᵀ, or = without `add`: 64 rows of a, n of b, 16 deep; `sum[n / 2]` |
# | `wgmma_commit()`, `wgmma_wait<0>()` | ends a batch; waits for all batches; `wgmma_wait<0>(sum)` before sum is used |
#
# One group of 128 threads computes 128 × 128: the upper 64 rows in `top`, the lower ones in `bottom`. For each step of
# 64 along K: one thread brings both tiles, all wait, all start eight products, all wait for them, and meet.
#
# <details><summary>Hint 1</summary>One barrier serves all steps: step s is its phase s, of parity s % 2.</details>
# <details><summary>Hint 2</summary>For k = 0, 16, 32, 48: <code>wgmma(top, wgmma_tile(a_tile + k),
# wgmma_tile(b_tile + k), …)</code>, and bottom from <code>a_tile + 64 * 64 + k</code>.</details>
# <details><summary>Hint 3</summary>Only the very first product of each sum does not add: <code>s + k > 0</code>. The
# meeting at the end is <code>__syncthreads()</code>: the next copies overwrite what all four warps have read.</details>

# %% cell="solution" id="matmul_tile"
# %%cuda
# #include <lab/hopper.cuh>
#
# // The sums of a warp group, as wgmma leaves them, to rows from m on and columns from n on of c (M, N).
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
# // c = a @ b^T: a (M, K), b (N, K), in boxes of 128 x 64, c (M, N). One warp group computes 128 x 128 elements.
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
    """launch(a, b, c, M, N, K) on matrices that boxes can be cut from, and c in whole vectors."""
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

# %% [markdown]
# ## Level 3: a ring, and warps with different jobs
#
# In level 2 tensor cores rest while a tile is copied. Now a block has nine warps. Warp 8, the producer, only starts
# copies: one lane runs ahead by as many tiles as there are stages. Warps 0 to 7, two groups, only multiply: each group
# has 64 rows of the 128 × 256 tile of C, and both use the same tile of B. Each stage has two barriers:
#
# - `full`: one arrival, the producer's, and the bytes. Consumers wait for it.
# - `empty`: eight arrivals, one of each consumer warp when its products have been read. The producer waits for it.
#
# In step s, stage `s % STAGES` is used for the `turn = s / STAGES`-th time. Consumers wait for `full` with parity
# `turn % 2`. The producer may fill it in turn 0 at once; later it waits until the turn before has been read. Waiting
# for the phase of parity `(turn + 1) % 2` does both: on a new barrier that phase counts as ended.
#
# 288 threads are nine warps, so one of the SM's four schedulers has three. Its 16384 registers give each of them at
# most 168 for a thread (16384 / 96, rounded down to a multiple of 8); each consumer needs 128 of them for its
# accumulators.
#
# <details><summary>Hint 1</summary>Producer, for each s: wait for <code>empty[stage]</code>, expect
# <code>(A_TILE + B_TILE) * sizeof(half)</code> bytes at <code>full[stage]</code>, load both tiles.</details>
# <details><summary>Hint 2</summary>Consumer, for each s: wait for <code>full[stage]</code>; fence; four products of its
# 64 rows of A with all of B; commit; wait; then lane 0 arrives at <code>empty[stage]</code>.</details>
# <details><summary>Hint 3</summary>The group's rows begin at <code>tile + group * 64 * 64</code>, B at <code>tile +
# A_TILE</code>. No <code>__syncthreads()</code>: the two sides never meet.</details>

# %% cell="solution" id="matmul_ring"
# %%cuda matmul_ring<4>
# #include <lab/hopper.cuh>
#
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
# // As matmul_tile, a in boxes of 128 x 64, b of 256 x 64. Nine warps compute 128 x 256 elements.
# template <int STAGES>
# __global__ void __launch_bounds__(288, 1)
# matmul_ring(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, half *c, int M, int N,
#             int K) {
#     constexpr int A_TILE = 128 * 64, B_TILE = 256 * 64;
#     extern __shared__ __align__(1024) half memory[];
#     __shared__ uint64_t full[STAGES], empty[STAGES];
#     int warp = threadIdx.x / 32, lane = threadIdx.x % 32, steps = (K + 63) / 64;
#     int tiles_m = (M + 127) / 128, tiles_n = (N + 255) / 256;  // groups of 16 rows of tiles, as in unit 14
#     int first = blockIdx.x / (16 * tiles_n) * 16, within = blockIdx.x % (16 * tiles_n);
#     int rows = min(tiles_m - first, 16);
#     int m0 = (first + within % rows) * 128, n0 = within / rows * 256;
#     if (threadIdx.x == 0) {
#         for (int stage = 0; stage < STAGES; stage++) {
#             mbarrier_init(&full[stage], 1);
#             mbarrier_init(&empty[stage], 8);
#         }
#         mbarrier_fence();
#     }
#     __syncthreads();
#     if (warp == 8) {
#         for (int s = 0; s < steps && lane == 0; s++) {
#             int stage = s % STAGES, turn = s / STAGES;
#             half *tile = memory + stage * (A_TILE + B_TILE);
#             // ### BEGIN SOLUTION
#             mbarrier_wait(&empty[stage], (turn + 1) % 2);
#             mbarrier_expect(&full[stage], (A_TILE + B_TILE) * sizeof(half));
#             tma_load(tile, &a, &full[stage], m0, s * 64);
#             tma_load(tile + A_TILE, &b, &full[stage], n0, s * 64);
#             // ### END SOLUTION
#         }
#     } else {
#         int group = warp / 4;
#         float sum[128];
#         for (int s = 0; s < steps; s++) {
#             int stage = s % STAGES, turn = s / STAGES;
#             half *tile = memory + stage * (A_TILE + B_TILE);
#             // ### BEGIN SOLUTION
#             mbarrier_wait(&full[stage], turn % 2);
#             wgmma_fence();
#             #pragma unroll
#             for (int k = 0; k < 64; k += 16)
#                 wgmma(sum, wgmma_tile(tile + group * 64 * 64 + k), wgmma_tile(tile + A_TILE + k), s + k > 0);
#             wgmma_commit();
#             wgmma_wait<0>();
#             if (lane == 0) mbarrier_arrive(&empty[stage]);
#             // ### END SOLUTION
#         }
#         wgmma_wait<0>(sum);
#         store_sums(sum, c, m0 + group * 64, n0, M, N);
#     }
# }


# %% cell="given" id="ring"
def ring(a, b, c, stages=4):
    kernel = matmul_ring.module[f"matmul_ring<{stages}>"] if stages != 4 else matmul_ring
    launch = kernel[cdiv(c.shape[0], 128) * cdiv(c.shape[1], 256), 288, stages * (128 + 256) * 64 * 2]
    in_rows(a, b, c, lambda a, b, c, *sizes: launch(boxes(a, 128), boxes(b, 256), c, *sizes))


# %% cell="check" exercise="16_matmul_hopper/ring"
lab.check("16_matmul_hopper/ring")

# %% [markdown]
# ## Level 4: what the library does besides
#
# Finished, to be read. Compared with yours:
#
# - **A persistent grid.** As many blocks as SMs, each with one tile of C after another. The ring never runs dry: while
#   consumers store one tile, the producer fetches for the next.
# - **Clusters.** Two blocks, one above the other in C, run on neighbouring SMs. Each fetches half of B's tile, and
#   `tma_load_multicast` delivers it to both. So a stage is empty when the consumers of *both* blocks say so, and each
#   consumer warp arrives in both (`mbarrier_arrive(&bar, rank)`). Nobody may leave while a neighbour can still reach
#   its shared memory: `cluster_sync()` at both ends.
# - **One batch of products stays under way.** `wgmma_wait<1>()`: tensor cores have the next batch while a warp gives
#   the stage before back.
# - **Stores by TMA.** Sums go to swizzled boxes of 64 × 64 in shared memory (`store_pieces`, without bank conflicts),
#   and from there by `tma_store`, which nobody waits for until the box is needed again.
# - **B either way.** WGMMA reads B along K, or along N when it is stored K × N: one bit of the instruction, and another
#   description of the tile.

# %% cell="given"
# %%cuda matmul_persistent<4,2,8,0>
# #include <lab/hopper.cuh>
#
# // c = a @ b^T, a in boxes of 128 x 64, c of 64 x 64; b (N, K) in boxes of 256 / CLUSTER x 64, or TRANSPOSED, (K, N)
# // in boxes of 64 x 64. Tiles of C are taken in groups of GROUP rows of 128 * CLUSTER.
# template <int STAGES, int CLUSTER, int GROUP, int TRANSPOSED>
# __global__ void __launch_bounds__(288, 1)
# matmul_persistent(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
#                   const __grid_constant__ CUtensorMap c, int M, int N, int K) {
#     constexpr int A_TILE = 128 * 64 * 2, B_TILE = 256 * 64 * 2, BOX = 64 * 64 * 2;  // bytes
#     extern __shared__ __align__(1024) char memory[];
#     char *boxes = memory + STAGES * (A_TILE + B_TILE);  // two for each consumer group
#     uint64_t *full = reinterpret_cast<uint64_t *>(boxes + 4 * BOX), *empty = full + STAGES;
#     int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rank = CLUSTER > 1 ? cluster_rank() : 0;
#     int tiles_m = (M + 128 * CLUSTER - 1) / (128 * CLUSTER), tiles_n = (N + 255) / 256, steps = (K + 63) / 64;
#     if (threadIdx.x == 0) {
#         for (int stage = 0; stage < STAGES; stage++) {
#             mbarrier_init(&full[stage], 1);
#             mbarrier_init(&empty[stage], 8 * CLUSTER);
#         }
#         mbarrier_fence();
#     }
#     if (CLUSTER > 1) cluster_sync();
#     else __syncthreads();
#
#     int stage = 0, parity = 0, m0, n0;  // the ring goes on from tile to tile
#     auto next_stage = [&] {
#         if (++stage == STAGES) stage = 0, parity ^= 1;
#     };
#     auto place = [&](int tile) {
#         int first = tile / (GROUP * tiles_n) * GROUP, within = tile % (GROUP * tiles_n);
#         int rows = min(tiles_m - first, GROUP);
#         m0 = ((first + within % rows) * CLUSTER + rank) * 128;
#         n0 = within / rows * 256;
#     };
#     auto give_back = [&](int which) {  // lane i tells block i of the cluster
#         if (lane < CLUSTER) {
#             if (CLUSTER > 1) mbarrier_arrive(&empty[which], lane);
#             else mbarrier_arrive(&empty[which]);
#         }
#     };
#     int tiles = tiles_m * tiles_n, begin = blockIdx.x / CLUSTER, clusters = gridDim.x / CLUSTER;
#
#     if (warp == 8) {
#         constexpr int PARTS = TRANSPOSED ? 4 / CLUSTER : 1, WIDTH = 256 / CLUSTER / PARTS;  // of B, for this block
#         for (int tile = begin; tile < tiles && lane == 0; tile += clusters) {
#             place(tile);
#             for (int k0 = 0; k0 < K; k0 += 64) {
#                 char *a_tile = memory + stage * (A_TILE + B_TILE), *b_tile = a_tile + A_TILE;
#                 mbarrier_wait(&empty[stage], parity ^ 1);
#                 mbarrier_expect(&full[stage], A_TILE + B_TILE);
#                 tma_load(a_tile, &a, &full[stage], m0, k0);
#                 #pragma unroll
#                 for (int part = 0; part < PARTS; part++) {
#                     int n = (rank * PARTS + part) * WIDTH;
#                     int row = TRANSPOSED ? k0 : n0 + n, column = TRANSPOSED ? n0 + n : k0;
#                     if (CLUSTER > 1)
#                         tma_load_multicast(b_tile + n * 128, &b, &full[stage], row, column, (1 << CLUSTER) - 1);
#                     else
#                         tma_load(b_tile + n * 128, &b, &full[stage], row, column);
#                 }
#                 next_stage();
#             }
#         }
#     } else {
#         int group = warp / 4, before = 0;
#         bool leader = threadIdx.x % 128 == 0;
#         float sum[128];
#         for (int tile = begin; tile < tiles; tile += clusters) {
#             for (int s = 0; s < steps; s++) {
#                 const char *a_tile = memory + stage * (A_TILE + B_TILE) + group * 64 * 128;
#                 const char *b_tile = memory + stage * (A_TILE + B_TILE) + A_TILE;
#                 mbarrier_wait(&full[stage], parity);
#                 wgmma_fence();
#                 #pragma unroll
#                 for (int k = 0; k < 64; k += 16)
#                     wgmma<TRANSPOSED>(
#                         sum, wgmma_tile(a_tile + 2 * k),
#                         TRANSPOSED ? wgmma_tile(b_tile + 128 * k, 1024, BOX) : wgmma_tile(b_tile + 2 * k), s + k > 0);
#                 wgmma_commit();
#                 if (s > 0) {
#                     wgmma_wait<1>();
#                     give_back(before);
#                 }
#                 before = stage;
#                 next_stage();
#             }
#             wgmma_wait<0>(sum);
#             give_back(before);
#
#             place(tile);
#             int row = warp % 4 * 16 + lane % 16;  // the row of a piece whose address this lane gives
#             #pragma unroll
#             for (int part = 0; part < 4; part++) {
#                 char *box = boxes + (group * 2 + part % 2) * BOX;
#                 if (leader) tma_wait<1>();  // the store before the last has read this box
#                 group_sync(1 + group);
#                 #pragma unroll
#                 for (int q = 0; q < 4; q++) {
#                     const float *d = &sum[part * 32 + q * 8];
#                     store_pieces(box + row * 128 + ((q * 2 + lane / 16) ^ (lane % 8)) * 16, two_halves(d[0], d[1]),
#                                  two_halves(d[2], d[3]), two_halves(d[4], d[5]), two_halves(d[6], d[7]));
#                 }
#                 fence_async();
#                 group_sync(1 + group);
#                 if (leader) {
#                     tma_store(&c, box, m0 + group * 64, n0 + part * 64);
#                     tma_commit();
#                 }
#             }
#         }
#         if (leader) tma_wait<0>();
#     }
#     if (CLUSTER > 1) cluster_sync();
# }


# %% cell="given" id="persistent"
def persistent(a, b, c, stages=4, cluster=2, group=8):
    """c = a @ b.T, b (N, K) with either axis lying side by side in memory."""
    (M, N), across = c.shape, int(b.stride(1) != 1)
    kernel = matmul_persistent.module[f"matmul_persistent<{stages},{cluster},{group},{across}>"].clustered(cluster)
    sms = lab.device.current().sms if a.is_cuda else 2 * cluster
    grid = cluster * min(sms // cluster, cdiv(M, 128 * cluster) * cdiv(N, 256))
    launch = kernel[grid, 288, stages * (128 + 256) * 64 * 2 + 4 * 64 * 64 * 2 + 2 * stages * 8]
    height = 64 if across else 256 // cluster
    in_rows(
        a,
        b.T if across else b,
        c,
        lambda a, b, c, *sizes: launch(boxes(a, 128), boxes(b, height), boxes(c, 64), *sizes),
    )


hopper.try_out(persistent)

# %%
# What the compiler made of them, on any machine: engines started, not loads and multiplications.
hopper.instructions(tma_scale, matmul_tile, matmul_ring, matmul_persistent)

# %% [markdown]
# ## The same machine from Python
#
# Gluon is Triton's lower floor: layouts, shared memory, barriers and warps are yours, registers and addresses are the
# compiler's. Find your ring again: `produce` and `consume` are given warps of their own by `warp_specialize`, eight for
# the first function, which is the one that the program began with, and one for the other.

# %% cell="given" id="gluon"
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor


@gluon.jit
def produce(a_desc, b_desc, a_smem, b_smem, full, empty, row, column, steps, STAGES: gl.constexpr):
    for s in range(steps):
        stage, turn = s % STAGES, s // STAGES
        mbarrier.wait(empty.index(stage), turn + 1 & 1)
        mbarrier.expect(full.index(stage), a_desc.block_type.nbytes + b_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(a_desc, [row, s * 64], full.index(stage), a_smem.index(stage))
        tma.async_copy_global_to_shared(b_desc, [column, s * 64], full.index(stage), b_smem.index(stage))


@gluon.jit
def consume(c_desc, a_smem, b_smem, full, empty, row, column, steps, STAGES: gl.constexpr):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [8, 1], [16, 256, 16])
    sums = gl.zeros([128, 256], gl.float32, layout)
    for s in range(steps):
        stage, turn = s % STAGES, s // STAGES
        mbarrier.wait(full.index(stage), turn & 1)
        sums = warpgroup_mma(a_smem.index(stage), b_smem.index(stage).permute((1, 0)), sums, is_async=True)
        sums = warpgroup_mma_wait(0, [sums])
        mbarrier.arrive(empty.index(stage), count=1)
    c_smem = gl.allocate_shared_memory(c_desc.dtype, [128, 256], c_desc.layout)
    c_smem.store(sums.to(c_desc.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(c_desc, [row, column], c_smem)
    tma.store_wait(0)


@gluon.jit
def gluon_kernel(a_desc, b_desc, c_desc, K, STAGES: gl.constexpr):
    """c = a @ b^T by a ring of tiles, a (M, K) in boxes of 128 x 64, b (N, K) of 256 x 64, c (M, N) of 128 x 256."""
    dtype: gl.constexpr = a_desc.dtype
    row, column, steps = gl.program_id(1) * 128, gl.program_id(0) * 256, gl.cdiv(K, 64)
    a_smem = gl.allocate_shared_memory(dtype, [STAGES, 128, 64], a_desc.layout)
    b_smem = gl.allocate_shared_memory(dtype, [STAGES, 256, 64], b_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=1)
    fence_async_shared()
    gl.warp_specialize(
        [
            (consume, (c_desc, a_smem, b_smem, full, empty, row, column, steps, STAGES)),
            (produce, (a_desc, b_desc, a_smem, b_smem, full, empty, row, column, steps, STAGES)),
        ],
        [1],
        [24],
    )


def gluon_ring(a, b, c):
    def described(x, *box):
        return TensorDescriptor.from_tensor(x, list(box), gl.NVMMASharedLayout.get_default_for(list(box), gl.float16))

    descriptors = described(a, 128, 64), described(b, 256, 64), described(c, 128, 256)
    gluon_kernel[(cdiv(c.shape[1], 256), cdiv(c.shape[0], 128))](*descriptors, a.shape[1], STAGES=3, num_warps=8)


# %%
hopper.ladder({"tile": tile, "ring": ring, "Gluon": gluon_ring, "persistent": persistent})

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** An SM does 2048 multiply-adds of fp16 in a clock. How long do the products of one stage of level 3 take
# it, and how many bytes must arrive in that time to keep it going? What do the ring, the persistent grid and the
# cluster each take out of its way?
#
# ### BEGIN SOLUTION
# 128 × 256 × 64 / 2048 = 1024 clocks, in which 48 KB must arrive: 48 bytes a clock for each SM, mostly from the L2.
# The ring takes out the *latency* of a copy, about as long as a stage: copies for later stages are under way meanwhile.
# The persistent grid takes out what lies between two tiles: start of a block, first copies, stores. The cluster takes
# out bytes: 32 KB in place of 48 for each block and stage, so 32 bytes a clock, and less power for moving data, which
# the clock rate then gets.
# ### END SOLUTION

# %% [markdown]
# **Next.** Try here: 3 stages, clusters of 1, other groups (`persistent(a, b, c, stages=3, cluster=1, group=16)`), and
# your ring with one batch under way. Then two consumer groups with a tile each, one storing while the other multiplies
# ("ping-pong"); fp8, for which the same ring holds twice the depth.
#
# **In practice** you call cuBLAS, or take CUTLASS, whose CuTe layouts write down what is hidden in our `wgmma_tile` and
# swizzles. Blackwell (compute capability 10.0) replaces WGMMA by `tcgen05`: one thread starts the product, and sums
# live in a memory of their own; TMA, mbarriers and the ring stay.
#
# **Reading.** [PTX ISA](https://docs.nvidia.com/cuda/parallel-thread-execution/): the chapters on mbarrier, tensor
# copies and wgmma, for every detail of `lab/hopper.cuh`. [Outperforming cuBLAS on
# H100](https://cudaforfun.substack.com/p/outperforming-cublas-on-h100-a-worklog) by Pranjal Shankhdhar: this ladder
# with more steps, a number after each. [CUTLASS: efficient
# GEMM](https://docs.nvidia.com/cutlass/media/docs/cpp/efficient_gemm.html): why production kernels have this form.

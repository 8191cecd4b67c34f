# %% [markdown]
# # Keep Hopper's tensor cores busy with a ring of tiles
#
# **You will** build a [pipeline](../glossary.md#pipeline) in which one warp copies [tiles](../glossary.md#tile) and
# eight warps multiply them. Then you write the main loop of a faster kernel. For M = N = K = 4096 on an H200, the
# faster kernel reaches {claim: hopper_persistent_of_cublas} of the speed of cuBLAS, NVIDIA's library.
#
# **You will learn to**
# - build a [ring buffer](../glossary.md#ring-buffer) of [stages](../glossary.md#stage) between a [producer and its
#   consumers](../glossary.md#producer-and-consumer);
# - explain why [clusters](../glossary.md#cluster), [multicast](../glossary.md#multicast) and a [persistent
#   grid](../glossary.md#persistent-kernel) help.
#
# **You need** `16_matmul_hopper`.
#
# About 75 minutes. The kernels run in the emulator, or on a Hopper GPU (H100, H200).

# %% cell="setup"

# %% [markdown]
# ## Predict: how many stages, and how many bytes?
#
# A stage is a buffer for two tiles: a `block_m` × `block_k` tile of A and a `block_n` × `block_k` tile of B.
#
# 1. A block can use {claim: hopper_shared_per_block} of [shared memory](../glossary.md#shared-memory) (1 KB is 1024
#    bytes). Other variables take `other` bytes. How many stages of fp16 tiles fit into the rest?
# 2. `cluster` is the number of blocks in a cluster. Their tiles of C are one above the other, so all blocks need the
#    same tile of B. Each block fetches its own tile of A, and the fraction 1 / `cluster` of the tile of B. This
#    fraction is delivered to all blocks. How many FLOPs does a block do per byte that it fetches itself?

# %% cell="solution" id="ledgers"
def stages(block_m, block_n, block_k, other):
    """Return how many stages of fp16 tiles fit in 227 KB if `other` bytes of them are taken."""
    ### BEGIN SOLUTION
    return (227 * 1024 - other) // (2 * (block_m + block_n) * block_k)
    ### END SOLUTION


def cluster_intensity(block_m, block_n, cluster):
    """Return a block's FLOPs per byte that it fetches itself, if `cluster` blocks share each fp16 tile of B."""
    ### BEGIN SOLUTION
    return 2 * block_m * block_n / (2 * (block_m + block_n / cluster))
    ### END SOLUTION


# %% cell="check" exercise="16_matmul_ring/stages"
lab.check("16_matmul_ring/stages")

# %% cell="check" exercise="16_matmul_ring/cluster_intensity"
lab.check("16_matmul_ring/cluster_intensity")

# %% [markdown]
# ## Level 3: a ring buffer, and warp specialization
#
# Levels 1 and 2 are in `16_matmul_hopper`. In level 2, the [tensor cores](../glossary.md#tensor-core) are idle while
# tiles are copied. Now a block has nine warps, which do two kinds of work ([warp
# specialization](../glossary.md#warp-specialization)):
#
# - Warp 8 is the producer. One of its lanes starts all copies. The producer can be up to `STAGES` iterations ahead of
#   the consumers.
# - Warps 0 to 7 are the consumers. They form two [warpgroups](../glossary.md#warpgroup), which multiply and store. Each
#   group computes 64 rows of the 128 × 256 tile of C. Both groups use the same tile of B.
#
# Each stage has two [mbarriers](../glossary.md#mbarrier):
#
# - Consumers wait for `full`. A phase of `full` ends when the producer and the bytes of both tiles have arrived.
# - The producer waits for `empty`. A phase of `empty` ends when all eight consumer warps have arrived. A consumer warp
#   arrives when its products from this stage are complete.
#
# Iteration `s` uses stage `s % STAGES`. A *round* has `STAGES` iterations: iteration `s` is in round `turn = s /
# STAGES`. In each round, each stage is filled once and read once, so round `turn` is phase `turn` of both mbarriers.
# Consumers wait for the end of phase `turn` of `full`, which has parity `turn % 2`. Before the producer fills a stage
# in round `turn`, the consumers must have read it in round `turn - 1`. So the producer waits for the end of phase
# `turn - 1` of `empty`, which has the same parity as `turn + 1`, `(turn + 1) % 2`. In round 0, all stages are free. The
# producer can call the same wait: on a new mbarrier, a wait for parity 1 returns at once.
#
# Nine warps leave few registers per thread. An SM has four [schedulers](../glossary.md#scheduler), so one scheduler has
# three of the nine warps, or 96 threads. A scheduler has {claim: hopper_registers_per_scheduler} registers, 170 for
# each of these threads. The number of registers per thread is a multiple of 8, so it is at most 168. A consumer thread
# needs 128 of them for its [accumulators](../glossary.md#accumulator), so 40 are left for addresses and loop variables.
#
# <details><summary>Hint 1</summary>In each iteration, the producer waits for <code>empty[stage]</code>. Then it calls
# <code>mbarrier_expect</code> on <code>full[stage]</code> with <code>(A_TILE + B_TILE) * sizeof(half)</code> bytes, and
# loads both tiles.</details>
# <details><summary>Hint 2</summary>In each iteration, a consumer waits for <code>full[stage]</code> and calls
# <code>wgmma_fence()</code>. It starts four products of its group's 64 rows of A and all rows of B, each over 16
# columns. It commits these products and waits for them. Then lane 0 of each warp arrives at
# <code>empty[stage]</code>.</details>
# <details><summary>Hint 3</summary>The group's rows of A start at <code>tile + group * 64 * 64</code>, and the tile of
# B starts at <code>tile + A_TILE</code>. Do not use <code>__syncthreads()</code>, because the producer does not reach
# it.</details>

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
# // c = a @ b^T: a (M, K) in boxes of 128 x 64, b (N, K) in boxes of 256 x 64, c (M, N).
# // A block has nine warps and computes 128 x 256 elements of c.
# template <int STAGES>
# __global__ void __launch_bounds__(288, 1)
# matmul_ring(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, half *c, int M, int N,
#             int K) {
#     constexpr int A_TILE = 128 * 64, B_TILE = 256 * 64;
#     extern __shared__ __align__(1024) half memory[];
#     __shared__ uint64_t full[STAGES], empty[STAGES];
#     int warp = threadIdx.x / 32, lane = threadIdx.x % 32, steps = (K + 63) / 64;
#     int tiles_m = (M + 127) / 128, tiles_n = (N + 255) / 256;  // grouped ordering, as in unit 14
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
from triton import cdiv

from labutils import hopper


def boxes(x, rows, columns=64):
    return lab.tensor_map(x, (rows, columns), swizzle=128)


def in_rows(a, b, c, launch):
    """Call launch(a, b, c, M, N, K) on arrays aligned for the TMA; rows of c are padded to a multiple of 16 bytes."""
    a, b, out = lab.aligned(a), lab.aligned(b), lab.padded(c, keep=False)
    launch(a, b, out, *out.shape, a.shape[1])
    if out is not c:
        c.copy_(out[:, : c.shape[1]])


def ring(a, b, c, stages=4):
    kernel = matmul_ring.module[f"matmul_ring<{stages}>"] if stages != 4 else matmul_ring
    launch = kernel[cdiv(c.shape[0], 128) * cdiv(c.shape[1], 256), 288, stages * (128 + 256) * 64 * 2]
    in_rows(a, b, c, lambda a, b, c, *sizes: launch(boxes(a, 128), boxes(b, 256), c, *sizes))


# %% cell="check" exercise="16_matmul_ring/ring"
lab.check("16_matmul_ring/ring")

# %%
import torch

# Step through six iterations of your ring: which tiles are in flight, and who waits for `full` and `empty`?
lab.play(ring, *(torch.rand(shape).half() for shape in ((128, 384), (256, 384), (128, 256))))

# %% [markdown]
# ## Level 4: a persistent grid of clusters
#
# The next kernel extends your ring:
#
# - **Persistent grid.** There is one block per SM. Each block computes one tile of C after another. While the consumers
#   store a tile of C, the producer already fetches A and B for the next tile of C.
# - **Clusters.** A cluster has two blocks, whose tiles of C are one above the other. Each block fetches half of the
#   tile of B, and `tma_load_multicast` delivers this half to both blocks. Each producer writes to both blocks, and must
#   therefore wait until the consumers of *both* blocks have read the stage that it fills next. So each consumer warp
#   arrives at the `empty` mbarriers of both blocks. A block must not exit while the other block can still access its
#   shared memory. So both blocks call `cluster_sync()` at the end.
# - **Back and forth.** For every second tile of C, the producer starts at the end of K. `place` takes every second
#   group of tiles from the right. The [L2](../glossary.md#l2-cache) still has what was read last.
# - **[TMA](../glossary.md#tma) stores.** `store_pieces` writes results to swizzled boxes in shared memory, without
#   [bank conflicts](../glossary.md#bank-conflict). `tma_store` copies the boxes to C.
#
# You write only the consumers' loop along K. **Skip the other 100 lines of the cell**: you need only the names in the
# table below. The four products of a stage, committed together, are a *batch*. Your loop keeps **one batch in flight**:
# a warp starts the batch of a stage before it waits for the batch of the previous stage, so the tensor cores always
# have work.
#
# | name | meaning |
# |---|---|
# | `steps` | the number of iterations along K |
# | `stage` | the current stage |
# | `parity` | the parity with which you wait for `full[stage]` |
# | `multiply(add)` | starts and commits the products of `stage`; pass `false` for the first batch of a tile of C |
# | `release(which)` | arrives at `empty[which]` of both blocks |
# | `next_stage()` | advances `stage` and `parity` |
# | `before` | a variable in which you keep the previous stage |
#
# <details><summary>Hint 1</summary>Wait for <code>full[stage]</code>, start the batch of this stage, wait for the
# previous batch, then release the previous stage.</details>
# <details><summary>Hint 2</summary><code>wgmma_wait&lt;1&gt;()</code> waits for all batches except the latest. In
# iteration 0 there is no previous stage.</details>
# <details><summary>Hint 3</summary>After the loop along K, call <code>wgmma_wait&lt;0&gt;(sum)</code> and release the
# last stage.</details>

# %% cell="solution" id="matmul_persistent"
# %%cuda matmul_persistent<4,2,8,0>
# #include <lab/hopper.cuh>
#
# // c = a @ b^T: a (M, K) in boxes of 128 x 64, c (M, N) in boxes of 64 x 64.
# // b is (N, K) in boxes of 256 / CLUSTER x 64 or, if TRANSPOSED, (K, N) in boxes of 64 x 64.
# // A cluster computes 128 * CLUSTER rows of c at a time. GROUP is the height of a group (grouped ordering, unit 14).
# // You write only the loop marked YOUR CODE HERE. Skip the other lines: the table above explains the names you need.
# template <int STAGES, int CLUSTER, int GROUP, int TRANSPOSED>
# __global__ void __launch_bounds__(288, 1)
# matmul_persistent(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
#                   const __grid_constant__ CUtensorMap c, int M, int N, int K) {
#     constexpr int A_TILE = 128 * 64 * 2, B_TILE = 256 * 64 * 2, BOX = 64 * 64 * 2;  // bytes
#     extern __shared__ __align__(1024) char memory[];
#     char *boxes = memory + STAGES * (A_TILE + B_TILE);  // two boxes per consumer group
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
#     int stage = 0, parity = 0, m0, n0;  // stage and parity continue from tile to tile
#     auto next_stage = [&] {  // advance `stage` and `parity`
#         if (++stage == STAGES) stage = 0, parity ^= 1;
#     };
#     auto place = [&](int tile) {  // set m0 and n0
#         int first = tile / (GROUP * tiles_n) * GROUP, within = tile % (GROUP * tiles_n);
#         int rows = min(tiles_m - first, GROUP), column = within / rows;
#         m0 = ((first + within % rows) * CLUSTER + rank) * 128;
#         n0 = (first / GROUP % 2 ? tiles_n - 1 - column : column) * 256;  // every second group from the right
#     };
#     auto release = [&](int which) {  // each consumer warp calls this when it has read stage `which`
#         if (lane < CLUSTER) {
#             if (CLUSTER > 1) mbarrier_arrive(&empty[which], lane);
#             else mbarrier_arrive(&empty[which]);
#         }
#     };
#     int tiles = tiles_m * tiles_n, begin = blockIdx.x / CLUSTER, clusters = gridDim.x / CLUSTER;
#
#     if (warp == 8) {  // the producer, given
#         constexpr int PARTS = TRANSPOSED ? 4 / CLUSTER : 1, WIDTH = 256 / CLUSTER / PARTS;  // boxes of B per block
#         int back = 0;
#         for (int tile = begin; tile < tiles && lane == 0; tile += clusters) {
#             place(tile);
#             for (int s = 0; s < steps; s++) {
#                 int k0 = (back ? steps - 1 - s : s) * 64;
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
#             back ^= 1;  // every second tile from the end of K
#         }
#     } else {
#         int group = warp / 4, before = 0;
#         bool leader = threadIdx.x % 128 == 0;
#         float sum[128];
#         auto multiply = [&](bool add) {  // start the four products of this stage, as one batch
#             const char *a_tile = memory + stage * (A_TILE + B_TILE) + group * 64 * 128;
#             const char *b_tile = memory + stage * (A_TILE + B_TILE) + A_TILE;
#             wgmma_fence();
#             #pragma unroll
#             for (int k = 0; k < 64; k += 16)
#                 wgmma<TRANSPOSED>(
#                     sum, wgmma_tile(a_tile + 2 * k),
#                     TRANSPOSED ? wgmma_tile(b_tile + 128 * k, 1024, BOX) : wgmma_tile(b_tile + 2 * k), add || k > 0);
#             wgmma_commit();
#         };
#         for (int tile = begin; tile < tiles; tile += clusters) {
#             // ### BEGIN SOLUTION
#             for (int s = 0; s < steps; s++) {
#                 mbarrier_wait(&full[stage], parity);
#                 multiply(s > 0);
#                 if (s > 0) {
#                     wgmma_wait<1>();
#                     release(before);
#                 }
#                 before = stage;
#                 next_stage();
#             }
#             wgmma_wait<0>(sum);
#             release(before);
#             // ### END SOLUTION
#             place(tile);  // store the tile: given
#             int row = warp % 4 * 16 + lane % 16;  // this lane gives the address of this row
#             #pragma unroll
#             for (int part = 0; part < 4; part++) {
#                 char *box = boxes + (group * 2 + part % 2) * BOX;
#                 if (leader) tma_wait<1>();  // all stores except the latest have read their boxes
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
    """Compute c = a @ b.T. b has shape (N, K); either of its axes may be contiguous in memory."""
    (M, N), across = c.shape, int(b.stride(1) != 1)
    kernel = matmul_persistent.module[f"matmul_persistent<{stages},{cluster},{group},{across}>"].clustered(cluster)
    gpu = lab.device.current()
    grid = cluster * min((gpu.sms if gpu else 2 * cluster) // cluster, cdiv(M, 128 * cluster) * cdiv(N, 256))
    launch = kernel[grid, 288, stages * (128 + 256) * 64 * 2 + 4 * 64 * 64 * 2 + 2 * stages * 8]
    height = 64 if across else 256 // cluster
    b = b.T if across else b
    in_rows(a, b, c, lambda a, b, c, *sizes: launch(boxes(a, 128), boxes(b, height), boxes(c, 64), *sizes))


hopper.try_out(persistent)

# %% cell="check" exercise="16_matmul_ring/persistent"
lab.check("16_matmul_ring/persistent")

# %%
# This cell counts instructions in the compiled machine code; it needs no GPU. Which belong to the
# TMA, and which to WGMMA?
hopper.instructions(matmul_ring, matmul_persistent)

# %% [markdown]
# ## Level 5, given: two groups in ping-pong
#
# In level 4, both consumer groups store at the same time, and the tensor cores wait. In level 5, each group has its own
# tiles of C, and the groups multiply in turns ([ping-pong](../glossary.md#ping-pong)): while one group stores, the
# other multiplies. Two more mbarriers, `turn[0]` and `turn[1]`, tell each group when it may start.
#
# - **Tiles of 128 × 192.** One group now holds the accumulators of a whole tile. For 128 × 256 these would be 256
#   registers per thread, and a thread can have at most 255. For 128 × 192 they are 192.
# - **Registers move.** `fewer_registers<24>()` takes registers from the producer's warps, and `more_registers<240>()`
#   gives them to the consumers.
#
# The next cell prints the consumers' loop of level 5. It has these names besides those of level 4:
#
# | name | meaning |
# |---|---|
# | `begin`, `clusters` | the cluster's first tile of C, and the number of clusters: it takes every `clusters`-th tile |
# | `PING_PONG` | 1: a group takes every second tile of its cluster; 0: both groups halve each tile, as in level 4 |
# | `other` | 1 for the group that starts with the cluster's second tile |
# | `turn_parity` | the parity with which a group waits for its `turn` |
# | `skip(stages)` | advances `stage` and `parity` past the stages that the other group uses |
# | `leader` | true in one thread of each group |
# | `PARTS`, `sum[part]` | how many times 64 rows a group computes, and the accumulators of each |
#
# The kernel is a template, in `labutils/lessons/tiles_kernel.py`: it computes tiles of other sizes, too.


# %% cell="given" id="ping_pong"
def tiled(tile, a, b, c, relu=False):
    """Compute c = a @ b.T as `persistent` does, in such tiles; with `relu`, max(c, 0)."""
    (M, N), across = c.shape, b.stride(1) != 1
    gpu, (rows, columns) = lab.device.current(), tile.extent
    clusters = min((gpu.sms if gpu else 4) // 2, cdiv(M, rows) * cdiv(N, columns))
    launch = hopper.tile_launcher(tile, clusters, across, relu)
    b = b.T if across else b

    def with_boxes(a, b, c, M, N, K):
        if tile.exchanged:
            a, b, M, N = b, a, N, M
        maps = (
            lab.tensor_map(x, box, swizzle=2 * box[1]) for x, box in zip((a, b, c), tile.boxes(across), strict=True)
        )
        launch(*maps, M, N, K)

    in_rows(a, b, c, with_boxes)


PING_PONG = hopper.Tile(128, 192, ping_pong=True)


def ping_pong(a, b, c):
    tiled(PING_PONG, a, b, c)


hopper.try_out(ping_pong)
hopper.show_ping_pong()

# %% [markdown]
# On an H200, level 5 reaches {claim: hopper_ping_pong_of_cublas} of the speed of cuBLAS for 7168 × 3072 with K = 8192,
# and level 4 {claim: hopper_persistent_almost_empty_wave}. For M = N = K = 4096, level 5 reaches only
# {claim: hopper_ping_pong_almost_empty_wave}. Level 6 shows why.
#
# ## Level 6, given: a tile for each shape
#
# In a [wave](../glossary.md#wave), each SM computes one tile of C. The last wave takes as long as the others, even if
# it has few tiles. For M = 7168 and N = 3072, tiles of 128 × 256 make 672 tiles for 132 SMs: 5.1 waves, so the sixth is
# almost empty. Tiles of 128 × 192 fill 6.8 of seven waves, and these waves are shorter. Other shapes need other tiles:
#
# - **Tiles of 256 × 160 and 256 × 192.** Each group computes 128 rows. A large tile needs fewer bytes per FLOP.
# - **Side by side.** Two tiles of 256 × 160 one above the other would share B, the smaller operand. Side by side, they
#   share A: each block fetches half of A's 256 rows, which is 36 KB per stage instead of 42 KB.
# - **Tiles of 128 × 224.** They fill the last wave where tiles of 128 × 256 leave it almost empty.
# - **Exchanged operands.** Cᵀ = Bᵀ Aᵀ, so the kernel can exchange a and b, compute Cᵀ, and transpose each tile when it
#   stores it. Then a tile is 256 columns high and 160 rows wide, and its width can be any multiple of 16. For
#   7000 × 3000 with K = 5000, such tiles fill four waves exactly, and reach {claim: hopper_exchanged_of_cublas} of the
#   speed of cuBLAS on an H200. Level 5 reaches {claim: hopper_not_exchanged}.
#
# `expected_ns` estimates the time with one of the tiles in `TILES` on an H200:
#
# - **Products.** An SM multiplies 2048 pairs of numbers per cycle. For 64 columns of K, each element of a tile takes
#   1/32 cycle, which is 0.018 ns at 1.74 GHz.
# - **Loads.** For 64 columns of K, a row of A or B has 128 bytes. If it starts at a multiple of 128 bytes, it is one
#   [cache line](../glossary.md#cache-line); otherwise it lies in two. A block loads a line in 1.1 ns, about two cycles.
#   The ring loads and multiplies at the same time, so an iteration takes as long as the slower of the two.
# - **Power.** Each row costs another 0.36 ns, even if its loads are hidden. This is probably because moving data takes
#   power, and the GPU lowers its clock rate to stay below its power limit.
# - **Stores.** 0.04 ns per element of C. In ping-pong, one group stores while the other multiplies.
#
# All of this is repeated in each wave. The start and the end of the kernel take 6.5 µs. We fitted these constants to
# measured times for 25 problem sizes. `fastest` takes the tile with the smallest estimate. For 12 other sizes, the best
# tile is {claim: hopper_choice_mean} faster on average, and at most {claim: hopper_choice_worst}.
#
# **A fused ReLU.** The results are in registers before they are stored. So `max(c, 0)` costs no bytes there:
# `fastest(a, b, c, relu=True)` takes as long as the product alone. A second kernel would read and write all of C again.


# %% cell="given" id="fastest"
import math


def tiles(height, ping_pong, widths, exchanged_widths):
    """Return tiles of these widths, each one above the other and side by side; exchanged, more widths are possible."""
    return [
        hopper.Tile(height, width, ping_pong, beside, exchanged)
        for exchanged, several in ((False, widths), (True, exchanged_widths))
        for width in several
        for beside in (False, True)
    ]


TILES = [
    *tiles(128, True, (128, 160, 192), (128, 144, 160, 176, 192)),
    *tiles(128, False, (224, 256), (208, 224, 240, 256)),
    *tiles(256, False, (128, 160, 192), (128, 144, 160, 176)),
]


def waves(M, N, tile):
    """Return the number of waves: in each, a cluster on every two SMs computes its tiles."""
    gpu, (rows, columns) = lab.device.current(), tile.extent
    return cdiv(cdiv(M, rows) * cdiv(N, columns), (gpu.sms if gpu else 132) // 2)


def expected_ns(M, N, K, tile, across=False):
    """Return the time that a product takes on an H200. With `across`, B is stored (K, N)."""

    def lines(length):  # cache lines of 128 bytes per row of 64 elements, in a matrix with rows of this length
        return 2 - math.gcd(length, 64) / 64

    elements, (of_a, of_b) = tile.height * tile.width, tile.loads
    if across and not tile.exchanged and tile.piece == 32:
        of_b *= 1.5  # twice as many rows, of 32 elements
    products = 0.018 * elements
    loads = 1.1 * (of_a * lines(K) + of_b * lines(N if across else K))
    loop = cdiv(K, 64) * (max(products, loads) + 0.36 * (of_a + of_b))
    stores = 0.04 * elements
    each_tile = max(loop, stores) if tile.ping_pong else loop + stores
    return waves(M, N, tile) * each_tile + 6500


def fastest_tile(M, N, K, across=False):
    return min(TILES, key=lambda tile: expected_ns(M, N, K, tile, across))


def fastest(a, b, c, relu=False):
    """Compute c = a @ b.T as `persistent` does, or max(c, 0), in the tiles that are expected to be fastest."""
    tiled(fastest_tile(*c.shape, a.shape[1], b.stride(1) != 1), a, b, c, relu)


hopper.try_out(fastest)

# %%
# Before you run this cell, predict: which tile is fastest for 4096 × 4096, which for 5120 × 6144 (K = 4096), and which
# for 3000 × 7000 (K = 5000)?
for M, N, K in ((4096, 4096, 4096), (7168, 3072, 8192), (5120, 6144, 4096), (3000, 7000, 5000), (2304, 2304, 2304)):
    print(f"{M} × {N}, K = {K}, the first four of {len(TILES)} tiles:")
    for tile in sorted(TILES, key=lambda tile: expected_ns(M, N, K, tile))[:4]:
        microseconds = expected_ns(M, N, K, tile) / 1000
        print(f"  {f'{tile}:':36} {waves(M, N, tile):3} waves, {microseconds:6.1f} µs expected")

# %% [markdown]
# On an H200, for 3000 × 7000 with K = 5000, tiles of 256 × 160 reach {claim: hopper_tiles_of_cublas} of the speed of
# cuBLAS, and level 5 {claim: hopper_ping_pong_unfit}: the 528 tiles fill four waves exactly.

# %% [markdown]
# ## Level 7, given: a product with one skinny side
#
# For 5000 × 120 with K = 4096, C has only 40 tiles of 128 × 128 for 132 SMs. Level 7 changes three things:
#
# - **K in parts.** The blocks of a [cluster](../glossary.md#cluster) also divide K ([split-K](../glossary.md#split-k)).
#   At the end, each block adds up some columns of the tile: the other blocks write their sums into its shared memory.
#   So partial sums never go to global memory, and they are always added in the same order.
# - **The skinny operand by multicast.** Each tile of C needs all columns of the skinny operand, here B. Each block of a
#   cluster loads a slice of them for all tiles of the cluster.
# - **The long operand is read once.** Only one block reads each tile of A. `tma_load_once` loads it with an [eviction
#   policy](../glossary.md#eviction-policy), so the L2 replaces these lines first. Otherwise they replace lines that the
#   previous kernel has written, and the L2 must first write those to memory. On an H200, this policy makes the kernel
#   {claim: hopper_read_once} faster for this product.
#
# A `Cut` describes how a cluster divides the work, and `estimate_us` estimates the time that a cut takes. Both are in
# `labutils/lessons/skinny_kernel.py`, with the kernel.


# %% cell="given" id="skinny"
def skinny(a, b, c):
    """Compute c = a @ b.T as `persistent` does, if M or N is at most 240."""
    hopper.skinny(a, b, c)


hopper.try_out(skinny, N=72)
hopper.show("tma_load_once")

# %%
# Before you run this cell, predict for 5000 × 120: how many blocks has a cluster, and how many of them share a tile?
# On a Hopper GPU, the cell also measures each cut. Is the first one the fastest?
hopper.show_cuts((5000, 120, 4096), (100, 5000, 3000), (16, 8192, 8192))

# %% [markdown]
# On an H200, level 7 reaches {claim: hopper_skinny_of_cublas} of the speed of cuBLAS for 5000 × 120 with K = 4096. For
# 2600 × 152 with K = 5200, it reaches {claim: hopper_skinny_best}, and {claim: hopper_skinny_best_of_four} with the
# fastest of the first four cuts. Unit 14's `matmul` reaches {claim: hopper_skinny_without} and
# {claim: hopper_skinny_best_without}: Triton has no multicast.

# %% [markdown]
# ## The same ring in Gluon
#
# [Gluon](../glossary.md#gluon) is Triton's low-level language. You control [layouts](../glossary.md#layout), shared
# memory, barriers and warps; the compiler assigns registers and addresses. The next cell prints the ring's functions
# `produce` and `consume` in Gluon, and the speed of levels 3 and 4. In each program, eight warps run `consume`;
# `warp_specialize` adds one warp, which runs `produce`.

# %%
lab.claims("16_matmul_ring")  # a two-minute quiz: predict each number, then compare
hopper.show_gluon()
hopper.ladder({"ring": ring, "persistent": persistent})

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** The tensor cores of an SM do {claim: hopper_fp16_fma} fp16 multiply-adds per cycle. In level 3, the
# products of one stage are 128 × 256 × 64 multiply-adds. How many cycles do these products take? How many bytes must
# arrive in this time? Compared with level 2, which wait does the ring remove? Which costs do the persistent grid and
# the cluster remove?
#
# ### BEGIN SOLUTION
# The products take 128 × 256 × 64 / 2048 = 1024 cycles. In this time 48 KB must arrive, which is 48 bytes per cycle and
# SM. Most of these bytes come from the L2. The ring hides the *latency* of a copy, which is about as long as the
# products of a stage: while these run, copies for later stages are in flight. The persistent grid removes the gaps
# between two tiles: the start of a block, its first copies, and its stores. The cluster reduces the bytes to 32 KB per
# block and stage, which is 32 bytes per cycle. Moving less data also takes less power, which allows a higher clock
# rate.
# ### END SOLUTION

# %% [markdown]
# **Next.** `19_hunt` hides bugs in kernels like these. Try 3 stages, clusters of one block, and groups of 16 tiles in
# the [grouped ordering](../glossary.md#grouped-ordering): `persistent(a, b, c, stages=3, cluster=1, group=16)`. Is it
# faster?
#
# **In practice** you call cuBLAS, or use CUTLASS, NVIDIA's C++ templates. Blackwell, the generation after Hopper
# ([compute capability](../glossary.md#compute-capability) 10.0), replaces [WGMMA](../glossary.md#wgmma) by
# [`tcgen05`](../glossary.md#tcgen05). With `tcgen05`, one thread starts a product, and accumulators are in separate
# *[tensor memory](../glossary.md#tensor-memory)*. Blackwell still has the TMA and mbarriers, so the ring stays the
# same.
#
# **Reading.** [Outperforming cuBLAS on H100](https://cudaforfun.substack.com/p/outperforming-cublas-on-h100-a-worklog)
# by Pranjal Shankhdhar builds the same kernel in more steps, and measures each step. [CUTLASS: efficient
# GEMM](https://docs.nvidia.com/cutlass/media/docs/cpp/efficient_gemm.html) explains why production kernels have this
# form.

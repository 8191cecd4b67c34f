"""Level 5 of unit 16: two consumer groups in ping-pong. CUDA C++ with the names of the notebook's level 4."""

SHARED = 4 * (128 + 192) * 64 * 2 + 6 * 64 * 64 * 2 + (2 * 4 + 2) * 8
"""Bytes of shared memory that a block needs: four stages, six boxes, ten mbarriers."""

SOURCE = r"""
#include <lab/hopper.cuh>

// c = a @ b^T: a (M, K) in boxes of 128 x 64, c (M, N) in boxes of 64 x 64.
// b is (N, K) in boxes of 96 x 64 or, if TRANSPOSED, (K, N) in boxes of 32 x 64.
// Each consumer group computes its own tiles of 128 x 192. The groups multiply in turns: while one stores, the other
// multiplies. Clusters of two blocks, one block per SM.
template <int TRANSPOSED>
__global__ void __launch_bounds__(384, 1)
matmul_ping_pong(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                 const __grid_constant__ CUtensorMap c, int M, int N, int K) {
    constexpr int STAGES = 4, CLUSTER = 2, GROUP = 8;
    constexpr int A_TILE = 128 * 64 * 2, B_TILE = 192 * 64 * 2, BOX = 64 * 64 * 2;  // bytes
    extern __shared__ __align__(1024) char memory[];
    char *boxes = memory + STAGES * (A_TILE + B_TILE);  // three boxes per consumer group
    uint64_t *full = reinterpret_cast<uint64_t *>(boxes + 6 * BOX), *empty = full + STAGES, *turn = empty + STAGES;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rank = cluster_rank();
    int tiles_m = (M + 128 * CLUSTER - 1) / (128 * CLUSTER), tiles_n = (N + 191) / 192, steps = (K + 63) / 64;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            mbarrier_init(&full[stage], 1);
            mbarrier_init(&empty[stage], 4 * CLUSTER);  // only one group reads a stage
        }
        for (int group = 0; group < 2; group++) mbarrier_init(&turn[group], 1);
        mbarrier_fence();
    }
    cluster_sync();

    int stage = 0, parity = 0, m0, n0;  // stage and parity continue from tile to tile
    auto advance = [&](int by) {  // advance `stage` and `parity` by so many stages
        stage += by;
        parity ^= stage / STAGES & 1;
        stage %= STAGES;
    };
    auto place = [&](int tile) {  // set m0 and n0
        int first = tile / (GROUP * tiles_n) * GROUP, within = tile % (GROUP * tiles_n);
        int rows = min(tiles_m - first, GROUP), column = within / rows;
        m0 = ((first + within % rows) * CLUSTER + rank) * 128;
        n0 = (first / GROUP % 2 ? tiles_n - 1 - column : column) * 192;  // every second group from the right
    };
    auto release = [&](int which) {  // each warp of the group calls this when it has read stage `which`
        if (lane < CLUSTER) mbarrier_arrive(&empty[which], lane);
    };
    int tiles = tiles_m * tiles_n, begin = blockIdx.x / CLUSTER, clusters = gridDim.x / CLUSTER;

    if (warp >= 8) {  // the producer: registers are given back by four warps together, so three of them only do this
        fewer_registers<24>();
        int back = 0;
        for (int tile = begin; tile < tiles && warp == 8 && lane == 0; tile += clusters) {
            place(tile);
            for (int s = 0; s < steps; s++) {
                int k0 = (back ? steps - 1 - s : s) * 64;
                char *a_tile = memory + stage * (A_TILE + B_TILE), *b_tile = a_tile + A_TILE;
                mbarrier_wait(&empty[stage], parity ^ 1);
                mbarrier_expect(&full[stage], A_TILE + B_TILE);
                tma_load(a_tile, &a, &full[stage], m0, k0);
                if (TRANSPOSED) {  // 32 of the 64 rows of k for both blocks
                    #pragma unroll
                    for (int part = 0; part < 3; part++)
                        tma_load_multicast(b_tile + part * BOX + rank * 32 * 128, &b, &full[stage], k0 + rank * 32,
                                           n0 + part * 64, 3);
                } else {  // 96 of the 192 rows of n
                    tma_load_multicast(b_tile + rank * 96 * 128, &b, &full[stage], n0 + rank * 96, k0, 3);
                }
                advance(1);
            }
            back ^= 1;  // every second tile from the end of K
        }
    } else {
        more_registers<240>();  // 192 for the accumulators
        int group = warp / 4, before = 0, turn_parity = group ^ 1;
        bool leader = threadIdx.x % 128 == 0;
        float upper[96], lower[96];  // 64 rows each
        auto multiply = [&](bool add) {  // start the products of this stage, as one batch
            const char *a_tile = memory + stage * (A_TILE + B_TILE), *b_tile = a_tile + A_TILE;
            wgmma_fence();
            #pragma unroll
            for (int k = 0; k < 64; k += 16) {
                uint64_t right = TRANSPOSED ? wgmma_tile(b_tile + 128 * k, 1024, BOX) : wgmma_tile(b_tile + 2 * k);
                wgmma<TRANSPOSED>(upper, wgmma_tile(a_tile + 2 * k), right, add || k > 0);
                wgmma<TRANSPOSED>(lower, wgmma_tile(a_tile + 64 * 128 + 2 * k), right, add || k > 0);
            }
            wgmma_commit();
        };
        advance(group * steps);  // the first tile is the other group's
        for (int tile = begin + group * clusters; tile < tiles; tile += 2 * clusters) {
            mbarrier_wait(&turn[group], turn_parity);  // in round 0, group 0 need not wait
            turn_parity ^= 1;
            for (int s = 0; s < steps; s++) {
                mbarrier_wait(&full[stage], parity);
                multiply(s > 0);
                if (s > 0) {
                    wgmma_wait<1>();
                    release(before);
                }
                before = stage;
                advance(1);
            }
            if (leader) mbarrier_arrive(&turn[group ^ 1]);  // all products are started: the other group's turn
            wgmma_wait<0>(upper);
            wgmma_wait<0>(lower);
            release(before);
            advance(steps);  // the other group's stages
            place(tile);     // store the tile as in level 4
            int row = warp % 4 * 16 + lane % 16;
            #pragma unroll
            for (int part = 0; part < 6; part++) {
                char *box = boxes + (group * 3 + part % 3) * BOX;
                if (leader) tma_wait<2>();
                group_sync(1 + group);
                #pragma unroll
                for (int q = 0; q < 4; q++) {
                    const float *d = part < 3 ? &upper[part * 32 + q * 8] : &lower[(part - 3) * 32 + q * 8];
                    store_pieces(box + row * 128 + ((q * 2 + lane / 16) ^ (lane % 8)) * 16, two_halves(d[0], d[1]),
                                 two_halves(d[2], d[3]), two_halves(d[4], d[5]), two_halves(d[6], d[7]));
                }
                fence_async();
                group_sync(1 + group);
                if (leader) {
                    tma_store(&c, box, m0 + part / 3 * 64, n0 + part % 3 * 64);
                    tma_commit();
                }
            }
        }
        if (leader) tma_wait<0>();
    }
    cluster_sync();
}
"""

"""Levels 5 and 6 of unit 16: tiles of other sizes, and groups in ping-pong. CUDA C++ with the names of level 4."""

from dataclasses import dataclass
from functools import cache

from ..cuda import kernel as cuda
from ..cuda.kernel import Kernel

SHARED = 227 * 1024
"""Bytes of shared memory that a block can have."""

BARRIERS = 256
"""Bytes for mbarriers, generously."""


@dataclass(frozen=True)
class Tile:
    """How a block and its cluster cut C: a block computes `height` × `width` elements at a time.

    The block's two consumer groups halve the rows of the tile, or with `ping_pong` each has tiles of its own. The tiles
    of the two blocks of a cluster are one above the other and share the tile of B, or with `beside` side by side and
    share the tile of A. With `exchanged`, all of this describes Cᵀ = Bᵀ Aᵀ: `height` counts columns of C.
    """

    height: int
    width: int
    ping_pong: bool = False
    beside: bool = False
    exchanged: bool = False

    def __str__(self) -> str:
        notes = ["ping-pong"] * self.ping_pong + ["beside"] * self.beside + ["exchanged"] * self.exchanged
        return f"{self.height} × {self.width}" + (f" ({', '.join(notes)})" if notes else "")

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and columns of C that a cluster computes at a time."""
        rows, columns = (self.height, 2 * self.width) if self.beside else (2 * self.height, self.width)
        return (columns, rows) if self.exchanged else (rows, columns)

    @property
    def loads(self) -> tuple[int, int]:
        """Rows of A and columns of B that a block loads for each iteration: half of what its cluster shares."""
        left, right = (self.height // 2, self.width) if self.beside else (self.height, self.width // 2)
        return (right, left) if self.exchanged else (left, right)

    @property
    def piece(self) -> int:
        """Columns of the tile that are stored at a time, in one box of C. Exchanged, they are rows of C."""
        return next(n for n in ((64, 48, 32, 16) if self.exchanged else (64, 32)) if self.width % n == 0)

    def boxes(self, transposed: bool) -> tuple[tuple[int, int], ...]:
        """Rows and columns of the boxes of a, b and c, or exchanged of b, a and c; transposed: b is (K, N).

        A block loads half of what its cluster shares: half of the rows of a box.
        """
        (first, second), c = self.loads, (64, self.piece)
        if self.exchanged:
            return (32 if self.beside else 64, 64) if transposed else (second, 64), (first, 64), c[::-1]
        left, right = (first, 64), (second, 64)
        return left, (64 if self.beside else 32, self.piece) if transposed else right, c

    @property
    def memory(self) -> tuple[int, int, int]:
        """Stages, boxes for each group's stores (as many as fit, 2 to 4), and the bytes of all of it."""
        stage, box = (self.height + self.width) * 64 * 2, 2 * 64 * self.piece * 2
        stages = (SHARED - BARRIERS - 2 * box) // stage
        boxes = min(4, (SHARED - BARRIERS - stages * stage) // box)
        return stages, boxes, stages * stage + boxes * box + BARRIERS


@cache
def kernel(tile: Tile, transposed: bool, relu: bool) -> Kernel:
    """The kernel for this tile; transposed: b is (K, N)."""
    parts = tile.height // (64 if tile.ping_pong else 128)
    flags = tile.ping_pong, tile.beside, tile.exchanged, transposed, relu
    numbers = *tile.memory[:2], parts, tile.width, tile.piece, *flags
    return cuda.compile(SOURCE, f"matmul_tiles<{','.join(str(int(n)) for n in numbers)}>").clustered(2)


SOURCE = r"""
#include <lab/hopper.cuh>

// c = a @ b^T, or max(c, 0) with RELU: a (M, K), b (N, K) or, if TRANSPOSED, (K, N), c (M, N).
// A consumer group computes 64 * PARTS rows and WIDTH columns of c. PING_PONG: each group has its own tiles, and the
// groups multiply in turns: while one stores, the other multiplies. Otherwise the groups halve a tile, as in level 4.
// BESIDE: the tiles of the two blocks of a cluster are side by side and share the tile of A. Otherwise they are one
// above the other and share the tile of B. Each block loads half of what both share.
// EXCHANGED: the caller has exchanged a and b, M and N, to compute c^T = b^T a^T. Then TRANSPOSED is about a, and each
// tile is transposed when it is stored. PIECE columns of a tile are stored at a time.
template <int STAGES, int BOXES, int PARTS, int WIDTH, int PIECE, int PING_PONG, int BESIDE, int EXCHANGED,
          int TRANSPOSED, int RELU>
__global__ void __launch_bounds__(384, 1)
matmul_tiles(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
             const __grid_constant__ CUtensorMap c, int M, int N, int K) {
    constexpr int CLUSTER = 2, ROWS = 64 * PARTS, HEIGHT = PING_PONG ? ROWS : 2 * ROWS;  // of a group, of a tile
    constexpr int ROWS_C = BESIDE ? HEIGHT : 2 * HEIGHT, COLUMNS_C = BESIDE ? 2 * WIDTH : WIDTH;  // of a cluster
    constexpr int GROUP = 2048 / ROWS_C;                               // height of a group (grouped ordering)
    constexpr int BOX = 64 * PIECE * 2, A_TILE = HEIGHT * 64 * 2, B_TILE = WIDTH * 64 * 2;  // bytes
    constexpr int A_TRANSPOSED = EXCHANGED && TRANSPOSED, B_TRANSPOSED = !EXCHANGED && TRANSPOSED;
    constexpr bool MANY = PARTS * WIDTH / 2 >= 192;                    // registers for the accumulators
    extern __shared__ __align__(1024) char memory[];
    char *boxes = memory + STAGES * (A_TILE + B_TILE);  // BOXES boxes of c per consumer group
    uint64_t *full = reinterpret_cast<uint64_t *>(boxes + 2 * BOXES * BOX), *empty = full + STAGES;
    uint64_t *turn = empty + STAGES;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rank = cluster_rank();
    int tiles_m = (M + ROWS_C - 1) / ROWS_C, tiles_n = (N + COLUMNS_C - 1) / COLUMNS_C, steps = (K + 63) / 64;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            mbarrier_init(&full[stage], 1);
            mbarrier_init(&empty[stage], (PING_PONG ? 4 : 8) * CLUSTER);  // in ping-pong, one group reads a stage
        }
        for (int group = 0; group < 2; group++) mbarrier_init(&turn[group], 1);
        mbarrier_fence();
    }
    cluster_sync();

    int stage = 0, parity = 0, m0, n0;  // stage and parity continue from tile to tile
    auto next_stage = [&] {  // advance `stage` and `parity`
        if (++stage == STAGES) stage = 0, parity ^= 1;
    };
    auto skip = [&](int stages) {  // advance them by so many stages; the division is too slow for a loop along K
        stage += stages;
        parity ^= stage / STAGES & 1;
        stage %= STAGES;
    };
    auto place = [&](int tile) {  // set m0 and n0
        int first = tile / (GROUP * tiles_n) * GROUP, within = tile % (GROUP * tiles_n);
        int rows = min(tiles_m - first, GROUP), column = within / rows;
        m0 = (first + within % rows) * ROWS_C + (BESIDE ? 0 : rank * HEIGHT);
        n0 = (first / GROUP % 2 ? tiles_n - 1 - column : column) * COLUMNS_C + (BESIDE ? rank * WIDTH : 0);
    };
    auto release = [&](int which) {  // each warp that has read stage `which` calls this
        if (lane < CLUSTER) mbarrier_arrive(&empty[which], lane);
    };
    int tiles = tiles_m * tiles_n, begin = blockIdx.x / CLUSTER, clusters = gridDim.x / CLUSTER;

    if (warp >= 8) {  // the producer: registers are given back by four warps together, so three of them only do this
        fewer_registers<MANY ? 24 : 40>();
        int back = 0;
        for (int tile = begin; tile < tiles && warp == 8 && lane == 0; tile += clusters) {
            place(tile);
            for (int s = 0; s < steps; s++) {
                int k0 = (back ? steps - 1 - s : s) * 64;
                char *a_tile = memory + stage * (A_TILE + B_TILE), *b_tile = a_tile + A_TILE;
                auto load = [&](char *to, const CUtensorMap &map, int row, int column, bool both) {
                    if (both) tma_load_multicast(to, &map, &full[stage], row, column, 3);
                    else tma_load(to, &map, &full[stage], row, column);
                };
                mbarrier_wait(&empty[stage], parity ^ 1);
                mbarrier_expect(&full[stage], A_TILE + B_TILE);
                int half = BESIDE ? rank * (A_TRANSPOSED ? 64 : HEIGHT) / 2 : 0;  // where this block's half of A begins
                if (A_TRANSPOSED) {
                    #pragma unroll
                    for (int i = 0; i < HEIGHT / 64; i++)
                        load(a_tile + (i * 64 + half) * 128, a, k0 + half, m0 + i * 64, BESIDE);
                } else {
                    load(a_tile + half * 128, a, m0 + half, k0, BESIDE);
                }
                half = BESIDE ? 0 : rank * (B_TRANSPOSED ? 64 : WIDTH) / 2;  // and that of B
                if (B_TRANSPOSED) {
                    #pragma unroll
                    for (int i = 0; i < WIDTH / PIECE; i++)
                        load(b_tile + i * BOX + half * PIECE * 2, b, k0 + half, n0 + i * PIECE, !BESIDE);
                } else {
                    load(b_tile + half * 128, b, n0 + half, k0, !BESIDE);
                }
                next_stage();
            }
            back ^= 1;  // every second tile from the end of K
        }
    } else {
        more_registers<MANY ? 240 : 232>();
        int group = warp / 4, before = 0, turn_parity = group ^ 1, box = 0;
        bool leader = threadIdx.x % 128 == 0;
        float sum[PARTS][WIDTH / 2];  // 64 rows each
        auto multiply = [&](bool add) {  // start the products of this stage, as one batch
            const char *a_tile = memory + stage * (A_TILE + B_TILE), *b_tile = a_tile + A_TILE;
            if (!PING_PONG) a_tile += group * ROWS * 128;
            wgmma_fence();
            #pragma unroll
            for (int k = 0; k < 64; k += 16) {
                uint64_t right = B_TRANSPOSED ? wgmma_tile(b_tile + 2 * PIECE * k, 16 * PIECE, BOX, 2 * PIECE)
                                              : wgmma_tile(b_tile + 2 * k);
                #pragma unroll
                for (int part = 0; part < PARTS; part++) {  // 16 columns are 32 bytes, or 16 rows if transposed
                    const char *left = a_tile + part * 64 * 128 + (A_TRANSPOSED ? 128 : 2) * k;
                    wgmma<B_TRANSPOSED, A_TRANSPOSED>(sum[part], wgmma_tile(left), right, add || k > 0);
                }
            }
            wgmma_commit();
        };
        auto result = [](float x, float y) {  // two elements of c
            return RELU ? two_halves(x < 0 ? 0 : x, y < 0 ? 0 : y) : two_halves(x, y);
        };
        int other = PING_PONG ? group : 0;  // the first tile of group 1 is the cluster's second
        skip(other * steps);
        for (int tile = begin + other * clusters; tile < tiles; tile += (1 + PING_PONG) * clusters) {
            place(tile);
            if (PING_PONG) {
                mbarrier_wait(&turn[group], turn_parity);  // in round 0, group 0 need not wait
                turn_parity ^= 1;
            }
            for (int s = 0; s < steps; s++) {
                mbarrier_wait(&full[stage], parity);
                multiply(s > 0);
                if (s > 0) {
                    wgmma_wait<1>();
                    release(before);
                }
                before = stage;
                next_stage();
            }
            if (PING_PONG && leader) mbarrier_arrive(&turn[group ^ 1]);  // all products are started: the other's turn
            #pragma unroll
            for (int part = 0; part < PARTS; part++) wgmma_wait<0>(sum[part]);
            release(before);
            if (PING_PONG) skip(steps);  // the other group's stages

            // Store the tile. Of four pieces of 8 x 8, lane i gives the address of row i % 8 of piece i / 8.
            int eight = lane / 8, row = warp % 4 * 16 + lane % 16, chunk = warp % 4 * 2 + eight % 2;
            int m = PING_PONG ? m0 : m0 + group * ROWS;
            #pragma unroll
            for (int i = 0; i < PARTS * WIDTH / PIECE; i++) {
                int part = i / (WIDTH / PIECE), column = i % (WIDTH / PIECE) * PIECE;
                char *to = boxes + (group * BOXES + box) * BOX;
                if (++box == BOXES) box = 0;
                if (leader) tma_wait<BOXES - 1>();  // the store that used this box has read it
                group_sync(1 + group);
                #pragma unroll
                for (int q = 0; q < PIECE / 16; q++) {
                    const float *d = &sum[part][column / 2 + q * 8];
                    char *at;
                    if (EXCHANGED)  // rows of the box are columns of the tile
                        at = to + (q * 16 + eight / 2 * 8 + lane % 8) * 128 + (chunk ^ lane % 8) * 16;
                    else
                        at = to + row * PIECE * 2 + ((q * 2 + eight / 2) ^ (row * PIECE / 64 % (PIECE / 8))) * 16;
                    store_pieces<EXCHANGED>(at, result(d[0], d[1]), result(d[2], d[3]), result(d[4], d[5]),
                                            result(d[6], d[7]));
                }
                fence_async();
                group_sync(1 + group);
                if (leader) {
                    if (EXCHANGED) tma_store(&c, to, n0 + column, m + part * 64);
                    else tma_store(&c, to, m + part * 64, n0 + column);
                    tma_commit();
                }
            }
        }
        if (leader) tma_wait<0>();
    }
    cluster_sync();
}
"""

"""Level 7 of unit 16: products with a skinny side, K in parts over a cluster. CUDA C++ with the names of level 6."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ..cuda import kernel as cuda
from ..cuda.alignment import aligned, padded
from ..cuda.kernel import Kernel
from ..cuda.tensor_map import tensor_map
from .tiles_kernel import BARRIERS, SHARED

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Cut:
    """How the blocks of a cluster cut a product c = a @ b.T of which one side, M or N, is skinny.

    A block multiplies `height` rows of A and `width` columns of B over one of `parts` parts of K. A cluster has all
    parts of `sharing` tiles, which lie one after another along the long side of C and share what they load of the
    skinny operand: that is B with `tall`, where M is the long side, and A without.
    """

    height: int
    width: int
    parts: int
    sharing: int
    tall: bool

    def __str__(self) -> str:
        return f"{self.height} × {self.width}, K in {self.parts}, {self.sharing} share {'B' if self.tall else 'A'}"

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.parts * self.sharing

    @property
    def rows(self) -> int:
        """Rows of A that a group of consumers multiplies: 128 if its accumulators fit into its registers, else 64."""
        return 128 if self.height % 128 == 0 and self.width <= 208 else 64

    @property
    def threads(self) -> int:
        """Of a block: groups of 128 consumers, and the producer's warp."""
        return self.height // self.rows * 128 + 32

    @property
    def registers(self) -> tuple[int, int]:
        """What a thread needs, and what it can have.

        It needs one for each accumulator and 26 others: ptxas refuses less, or puts accumulators into local memory. The
        65536 registers of a multiprocessor are handed out to 4 warps at a time, a multiple of 8 for each thread.
        """
        warps = -(-self.threads // 128) * 4
        return self.rows * self.width // 128 + 26, min(65536 // (32 * warps) // 8 * 8, 255)

    def piece(self, transposed: bool) -> int:
        """Columns of a box of B; transposed: b is (K, N)."""
        return 32 if transposed and not self.tall and self.width % 64 else 64

    def loads(self, transposed: bool) -> int:
        """Columns of B that a block loads: whole boxes, if b is (K, N)."""
        return self.width + -self.width % self.piece(transposed) if transposed else self.width

    def memory(self, transposed: bool) -> tuple[int, int]:
        """Stages, as many as fit, and the bytes of shared memory."""
        stage = (self.height + self.loads(transposed)) * 128
        stages = min((SHARED - 2 * BARRIERS) // stage, 12)
        return stages, stages * stage + BARRIERS

    def fits(self, transposed: bool) -> bool:
        """Whether a cluster has at most 8 blocks, and registers, boxes and shared memory suffice."""
        (stages, _), shared, (needed, most) = self.memory(transposed), self.height, self.registers
        if self.tall:
            shared = 64 if transposed else self.width
        inbox = (self.parts - 1) * self.height * -(-self.width // 16 // self.parts) * 16 * 4
        return (
            self.cluster <= 8
            and needed <= most
            and shared % (8 * self.sharing) == 0
            and stages >= 2
            and inbox <= stages * (self.height + self.loads(transposed)) * 128
        )

    def boxes(self, transposed: bool) -> tuple[tuple[int, int], tuple[int, int]]:
        """Rows and columns of the boxes of a and b. A block loads one of `sharing` slices of the skinny operand's."""
        of_a, of_b = (1, self.sharing) if self.tall else (self.sharing, 1)
        right = (64 // of_b, self.piece(transposed)) if transposed else (self.width // of_b, 64)
        return (self.height // of_a, 64), right

    def blocks(self, M: int, N: int) -> tuple[int, int]:
        """The grid: blocks along the long side, in whole clusters, and tiles along the skinny one."""
        long, tile, skinny, side = (M, self.height, N, self.width) if self.tall else (N, self.width, M, self.height)
        return -(-long // (tile * self.sharing)) * self.cluster, -(-skinny // side)


SKINNY = 240
"""The longest skinny side that the estimate was fitted to."""

CLUSTERS = {1: 132, 2: 66, 3: 39, 4: 28, 5: 22, 6: 17, 7: 14, 8: 15}
"""Blocks of a cluster -> clusters that an H200 was seen to run at once, one block per SM. A cluster lies in one GPC:
most sizes leave some of its SMs over."""


def estimate_us(cut: Cut, M: int, N: int, K: int, transposed: bool) -> float:
    """The time of a product on an H200 in microseconds; transposed: b is (K, N).

    The constants are fitted to 1325 timings of 34 products. With 14 other products, drawn at random, the cut with the
    least estimate took 1.011 times as long as the best on average, at most 1.035 times.
    """

    def lines(length: int) -> float:  # cache lines of a row of 64 elements, in a matrix with rows of this length
        return 2 - math.gcd(length, 64) / 64

    def slower(x: float, y: float) -> float:  # the slower of two things at the same time; more if both take as long
        return (x**4 + y**4) ** 0.25

    across, skinny = cut.blocks(M, N)
    blocks, right = across * skinny, cut.loads(transposed)
    of_a, of_b = cut.height * lines(K), right * lines(N if transposed else K) * 64 / cut.piece(transposed)
    fetched = of_a + of_b / cut.sharing if cut.tall else of_a / cut.sharing + of_b
    waves = -(-blocks // (cut.cluster * CLUSTERS[cut.cluster]))
    # for 64 columns of K: an SM takes in a row of 128 bytes in 1.25 ns, the L2 gives a line to any of them in 7.2 ps
    step = slower(1.25 * (cut.height + right), 7.2e-3 * fetched * blocks) / 1000
    # the memory has 4.3 bytes of the long operand's lines in a picosecond
    long = M * lines(K) if cut.tall else N * lines(K) if not transposed else N * lines(N)
    loop = slower(waves * -(-K // (64 * cut.parts)) * step, 2 * long * K / 4.3e6)
    exchange = (cut.parts > 1) * (1 + 1.95e-4 * cut.height * cut.width * (cut.parts - 1) / cut.parts)
    return 6.5 + loop + exchange


@cache
def cuts(M: int, N: int, K: int, transposed: bool, threads: int | None = None) -> list[Cut]:
    """The cuts for a product of which M or N is at most 256, the least estimate first; transposed: b is (K, N).

    A cluster has at most so many `threads`, if that is given.
    """
    tall, most = M > N, max(-(-K // 64) // 4, 1)
    if tall:
        sizes = [(64 * n, min(max(-(-N // 16) * 16, 64), 256)) for n in range(1, 5)]
    else:
        sizes = [(min(-(-M // 64) * 64, 256), width) for width in range(64, 257, 32 if transposed else 16)]
    every = (
        Cut(height, width, parts, sharing, tall)
        for height, width in sizes
        for parts in range(1, min(8, most) + 1)
        for sharing in (1, 2, 4, 8)
    )
    possible = [c for c in every if c.fits(transposed) and (threads is None or c.cluster * c.threads <= threads)]
    return sorted(possible, key=lambda c: estimate_us(c, M, N, K, transposed))


@cache
def kernel(cut: Cut, transposed: bool) -> Kernel:
    """The kernel for this cut; transposed: b is (K, N)."""
    numbers = (
        cut.height // cut.rows, cut.rows // 64, cut.width, cut.piece(transposed), cut.memory(transposed)[0], cut.parts,
        cut.sharing, cut.tall, transposed,
    )  # fmt: skip
    made = cuda.compile(SOURCE, f"matmul_skinny<{','.join(str(int(n)) for n in numbers)}>")
    return made.clustered(cut.cluster)


def multiply(cut: Cut, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    """Compute c = a @ b.T, fp16: a (M, K), b (N, K), whose rows or columns are contiguous, c (M, N).

    Operands whose rows the TMA cannot address are copied first, and c is copied last if the kernel cannot store pairs.
    """
    transposed = b.stride(1) != 1
    a, b = aligned(a), aligned(b.T if transposed else b)
    pairs = c.is_contiguous() and c.shape[1] % 2 == 0 and c.data_ptr() % 4 == 0
    out = c if pairs else padded(c, keep=False)
    of_a, of_b = cut.boxes(transposed)
    launch = kernel(cut, transposed)[cut.blocks(*out.shape), cut.threads, cut.memory(transposed)[1]]
    launch(tensor_map(a, of_a, 128), tensor_map(b, of_b, 2 * of_b[1]), out, *out.shape, a.shape[1])
    if out is not c:
        c.copy_(out[:, : c.shape[1]])


SOURCE = r"""
#include <lab/hopper.cuh>

// c = a @ b^T: a (M, K), b (N, K) or, if TRANSPOSED, (K, N), c (M, N). A block multiplies HEIGHT rows of a and WIDTH
// columns of b over one of K_PARTS parts of K. A cluster has all parts of SHARING tiles of c. These tiles are one above
// the other and share B (TALL), or side by side and share A: each block loads one slice of it, for all of them.
// A consumer group has 64 * PARTS rows. Each block adds up some of the columns of its tile: the others send it theirs.
template <int GROUPS, int PARTS, int WIDTH, int PIECE, int STAGES, int K_PARTS, int SHARING, int TALL, int TRANSPOSED>
__global__ void __launch_bounds__(128 * GROUPS + 32, 1)
matmul_skinny(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, half *c, int M, int N,
              int K) {
    constexpr int HEIGHT = 64 * GROUPS * PARTS, CLUSTER = K_PARTS * SHARING, THREADS = 128 * GROUPS;
    constexpr int BOX = 64 * PIECE * 2, BOXES = (WIDTH + PIECE - 1) / PIECE;         // of b, if TRANSPOSED
    constexpr int A_TILE = HEIGHT * 128, B_TILE = TRANSPOSED ? BOXES * BOX : WIDTH * 128;  // bytes
    constexpr int MOST = (WIDTH / 16 + K_PARTS - 1) / K_PARTS * 2;  // times 8 columns that a block adds up
    extern __shared__ __align__(1024) char memory[];
    uint64_t *full = reinterpret_cast<uint64_t *>(memory + STAGES * (A_TILE + B_TILE)), *empty = full + STAGES;
    uint64_t *arrived = empty + STAGES;  // the accumulators of the other parts
    int t = threadIdx.x, warp = t / 32, lane = t % 32, rank = CLUSTER > 1 ? cluster_rank() : 0;
    int k_part = rank / SHARING, share = rank % SHARING;
    if (t == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            mbarrier_init(&full[stage], 1);
            mbarrier_init(&empty[stage], 4 * GROUPS * SHARING);
        }
        mbarrier_init(arrived, 1);
        mbarrier_fence();
    }
    if (CLUSTER > 1) cluster_sync();
    else __syncthreads();

    int along = (blockIdx.x / CLUSTER * SHARING + share) * (TALL ? HEIGHT : WIDTH);
    int m0 = TALL ? along : blockIdx.y * HEIGHT, n0 = TALL ? blockIdx.y * WIDTH : along;
    int steps = (K + 63) / 64, begin = steps * k_part / K_PARTS, end = steps * (k_part + 1) / K_PARTS;
    int stage = 0, parity = 0;
    auto next_stage = [&] {  // advance `stage` and `parity`
        if (++stage == STAGES) stage = 0, parity ^= 1;
    };
    float sum[PARTS][WIDTH / 2];  // 64 rows each
    if (warp == 4 * GROUPS) {     // the producer
        for (int step = begin; step < end && lane == 0; step++) {
            char *a_tile = memory + stage * (A_TILE + B_TILE), *b_tile = a_tile + A_TILE;
            auto load = [&](char *to, const CUtensorMap &map, int row, int column, bool shared) {
                if (!shared) tma_load_once(to, &map, &full[stage], row, column);  // no other block reads it
                else if (SHARING == 1) tma_load(to, &map, &full[stage], row, column);
                else tma_load_multicast(to, &map, &full[stage], row, column, ((1 << SHARING) - 1) << k_part * SHARING);
            };
            mbarrier_wait(&empty[stage], parity ^ 1);
            mbarrier_expect(&full[stage], A_TILE + B_TILE);
            int slice = TALL ? 0 : share * HEIGHT / SHARING;  // where this block's slice of A begins
            load(a_tile + slice * 128, a, m0 + slice, step * 64, !TALL);
            slice = TALL ? share * (TRANSPOSED ? 64 : WIDTH) / SHARING : 0;  // and that of B
            if (TRANSPOSED) {
                #pragma unroll
                for (int i = 0; i < BOXES; i++)
                    load(b_tile + i * BOX + slice * PIECE * 2, b, step * 64 + slice, n0 + i * PIECE, TALL);
            } else {
                load(b_tile + slice * 128, b, n0 + slice, step * 64, TALL);
            }
            next_stage();
        }
    } else {
        int group = warp / 4, before = 0;
        #pragma unroll
        for (int part = 0; part < PARTS; part++)
            #pragma unroll
            for (int i = 0; i < WIDTH / 2; i++) sum[part][i] = 0.0f;
        if (K_PARTS > 1 && t == 0) {  // from each thread of the other blocks 32 bytes for each 16 columns
            int mine = (WIDTH / 16 - k_part + K_PARTS - 1) / K_PARTS;
            mbarrier_expect(arrived, (K_PARTS - 1) * PARTS * mine * THREADS * 32);
        }
        auto release = [&](int which) {  // each warp that has read stage `which` calls this
            if (SHARING > 1 && lane < SHARING) mbarrier_arrive(&empty[which], k_part * SHARING + lane);
            if (SHARING == 1 && lane == 0) mbarrier_arrive(&empty[which]);
        };
        for (int step = begin; step < end; step++) {
            mbarrier_wait(&full[stage], parity);
            const char *a_tile = memory + stage * (A_TILE + B_TILE), *b_tile = a_tile + A_TILE;
            wgmma_fence();
            #pragma unroll
            for (int k = 0; k < 64; k += 16) {
                uint64_t right = TRANSPOSED ? wgmma_tile(b_tile + 2 * PIECE * k, 16 * PIECE, BOX, 2 * PIECE)
                                            : wgmma_tile(b_tile + 2 * k);
                #pragma unroll
                for (int part = 0; part < PARTS; part++)
                    wgmma<TRANSPOSED>(sum[part], wgmma_tile(a_tile + (group * PARTS + part) * 64 * 128 + 2 * k), right);
            }
            wgmma_commit();
            if (step > begin) {
                wgmma_wait<1>();
                release(before);
            }
            before = stage;
            next_stage();
        }
        #pragma unroll
        for (int part = 0; part < PARTS; part++) wgmma_wait<0>(sum[part]);
        if (end > begin) release(before);
    }
    if (CLUSTER > 1) cluster_sync();  // all blocks have read their stages: they are free for accumulators
    if (warp == 4 * GROUPS) return;

    // The block of part p of K adds up every K_PARTS-th 16 columns, from the p-th on. Each index of `sum` below is a
    // constant. Otherwise the compiler would put the accumulators into local memory, and each product would wait for
    // the one before.
    float2 *inbox = reinterpret_cast<float2 *>(memory);
    auto place = [&](int owner, int from, int part, int eight) {  // of two float2 in the inbox of `owner`
        int sender = from < owner ? from : from - 1, slot = eight / 2 / K_PARTS * 2 + eight % 2;
        return &inbox[((sender * PARTS + part) * MOST + slot) * 2 * THREADS + t];
    };
    if (K_PARTS > 1) {
        #pragma unroll
        for (int part = 0; part < PARTS; part++)
            #pragma unroll
            for (int eight = 0; eight < WIDTH / 8; eight++) {
                const int owner = eight / 2 % K_PARTS;
                if (owner == k_part) continue;
                #pragma unroll
                for (int i = 0; i < 2; i++) {
                    const float *d = &sum[part][eight * 4 + i * 2];
                    store_async(place(owner, k_part, part, eight) + i * THREADS, make_float2(d[0], d[1]), arrived,
                                owner * SHARING + share);
                }
            }
        mbarrier_wait(arrived, 0);
    }
    int row = m0 + warp / 4 * 64 * PARTS + warp % 4 * 16 + lane / 4, column = n0 + lane % 4 * 2;
    #pragma unroll
    for (int part = 0; part < PARTS; part++)
        #pragma unroll
        for (int eight = 0; eight < WIDTH / 8; eight++) {
            const int owner = eight / 2 % K_PARTS;
            if (owner != k_part) continue;
            #pragma unroll
            for (int i = 0; i < 2; i++) {
                float2 v = make_float2(0.0f, 0.0f);
                #pragma unroll
                for (int from = 0; from < K_PARTS; from++) {  // in this order, on every run
                    const float *d = &sum[part][eight * 4 + i * 2];
                    float2 x = make_float2(d[0], d[1]);
                    if (from != owner) x = *(place(owner, from, part, eight) + i * THREADS);
                    v.x += x.x, v.y += x.y;
                }
                int m = row + part * 64 + i * 8, n = column + eight * 8;
                if (m < M && n < N)
                    *reinterpret_cast<half2 *>(c + (size_t)m * N + n) = __floats2half2_rn(v.x, v.y);
            }
        }
}
"""

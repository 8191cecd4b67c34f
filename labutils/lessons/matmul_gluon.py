"""Matmul and ReLU in Gluon for Hopper: one warp copies tiles, two groups of four warps multiply. Unit 14's last level.

Each group has its own rows of a tile and its own loop, so that one stores while the other multiplies. A tile may have
192 columns: the sizes of Gluon's arrays are powers of two, but a group may have two accumulators.
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
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

from ..cuda.alignment import aligned
from ..gpu import device

DEPTH = gl.constexpr(64)
"""Columns of A and rows of B in one stage: 128 bytes, as wide as the TMA swizzles."""
barrier = getattr(gl, "thread_barrier", None) or gl.barrier  # named so until Triton 3.6


@gluon.jit
def corner(tile, tiles_m, tiles_n, GROUP_M: gl.constexpr):
    """(row, column) of a tile, counted in tiles: in groups of GROUP_M rows, every second group from the right."""
    per_group = GROUP_M * tiles_n
    group = tile // per_group
    rows = gl.minimum(tiles_m - group * GROUP_M, GROUP_M)
    within = tile % per_group
    column = within // rows
    return group * GROUP_M + within % rows, gl.where(group % 2 == 1, tiles_n - 1 - column, column)


@gluon.jit
def load_b(b_desc, smem, full, k, n, B_IS_NK: gl.constexpr):
    if B_IS_NK:
        tma.async_copy_global_to_shared(b_desc, [n, k], full, smem)
    else:
        tma.async_copy_global_to_shared(b_desc, [k, n], full, smem)


@gluon.jit
def produce(descs, smem, bars, work, ROWS: gl.constexpr, COLUMNS: gl.constexpr, MORE: gl.constexpr,
            STAGES: gl.constexpr, GROUP_M: gl.constexpr, B_IS_NK: gl.constexpr):  # fmt: skip
    """The warp that copies: for each step along K the rows of both groups, and the columns of B.

    Every second tile begins at the end of K: what it needs first, the last tile has just left in the L2.
    """
    a_desc, b_desc, more_desc, c_desc = descs
    a_smem, b_smem, more_smem, c_smem = smem
    full, empty = bars
    tiles_m, tiles_n, steps = work
    per_step: gl.constexpr = 2 * (2 * ROWS + COLUMNS + MORE) * DEPTH
    turn = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        row, column = corner(tile, tiles_m, tiles_n, GROUP_M)
        m, n = row * 2 * ROWS, column * (COLUMNS + MORE)
        backwards = tile // gl.num_programs(0) % 2 == 1
        for step in range(steps):
            k = gl.where(backwards, steps - 1 - step, step) * DEPTH
            stage, phase = turn % STAGES, turn // STAGES & 1
            mbarrier.wait(empty.index(stage), phase ^ 1)
            mbarrier.expect(full.index(stage), per_step)
            tma.async_copy_global_to_shared(a_desc, [m, k], full.index(stage), a_smem.index(2 * stage))
            tma.async_copy_global_to_shared(a_desc, [m + ROWS, k], full.index(stage), a_smem.index(2 * stage + 1))
            load_b(b_desc, b_smem.index(stage), full.index(stage), k, n, B_IS_NK)
            if MORE:
                load_b(more_desc, more_smem.index(stage), full.index(stage), k, n + COLUMNS, B_IS_NK)
            turn += 1


@gluon.jit
def store(c_desc, c_tile, m, n, acc, COLUMNS: gl.constexpr, PIECE: gl.constexpr):
    """max(acc, 0) to c at (m, n), in pieces of PIECE columns, each once the last one has left shared memory."""
    if COLUMNS == PIECE:
        tma.store_wait(0)
        barrier()
        c_tile.store(gl.maximum(acc, 0.0).to(c_tile.dtype))
        fence_async_shared()
        barrier()
        tma.async_copy_shared_to_global(c_desc, [m, n], c_tile)
    else:
        HALF: gl.constexpr = COLUMNS // 2
        left, right = gl.split(gl.permute(gl.reshape(acc, (acc.shape[0], 2, HALF)), (0, 2, 1)))
        store(c_desc, c_tile, m, n, left, HALF, PIECE)
        store(c_desc, c_tile, m, n + HALF, right, HALF, PIECE)


@gluon.jit
def multiply(group: gl.constexpr, descs, smem, bars, work, ROWS: gl.constexpr, COLUMNS: gl.constexpr,
             MORE: gl.constexpr, STAGES: gl.constexpr, GROUP_M: gl.constexpr, B_IS_NK: gl.constexpr,
             PIECE: gl.constexpr):  # fmt: skip
    """ROWS rows of each tile: a step's products start before those of the last step have ended."""
    a_desc, b_desc, more_desc, c_desc = descs
    a_smem, b_smem, more_smem, c_smem = smem
    full, empty = bars
    tiles_m, tiles_n, steps = work
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLUMNS, 16])
    more_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, MORE if MORE else COLUMNS, 16])
    turn = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        row, column = corner(tile, tiles_m, tiles_n, GROUP_M)
        m, n = (row * 2 + group) * ROWS, column * (COLUMNS + MORE)
        acc = gl.zeros([ROWS, COLUMNS], gl.float32, layout)
        if MORE:
            more = gl.zeros([ROWS, MORE], gl.float32, more_layout)
        for step in range(steps):
            stage, phase = turn % STAGES, turn // STAGES & 1
            mbarrier.wait(full.index(stage), phase)
            a, b = a_smem.index(2 * stage + group), b_smem.index(stage)
            acc = warpgroup_mma(a, b.permute((1, 0)) if B_IS_NK else b, acc, is_async=True)
            if MORE:
                b = more_smem.index(stage)
                more = warpgroup_mma(a, b.permute((1, 0)) if B_IS_NK else b, more, is_async=True)
                acc, more = warpgroup_mma_wait(2, [acc, more])
            else:
                acc = warpgroup_mma_wait(1, [acc])
            if step > 0:
                mbarrier.arrive(empty.index((turn - 1) % STAGES), count=1)
            turn += 1
        if MORE:
            acc, more = warpgroup_mma_wait(0, [acc, more])
        else:
            acc = warpgroup_mma_wait(0, [acc])
        mbarrier.arrive(empty.index((turn - 1) % STAGES), count=1)
        store(c_desc, c_smem.index(group), m, n, acc, COLUMNS, PIECE)
        if MORE:
            store(c_desc, c_smem.index(group), m, n + COLUMNS, more, MORE, PIECE)
    tma.store_wait(0)


@gluon.jit
def matmul_kernel(a_desc, b_desc, more_desc, c_desc, tiles_m, tiles_n, steps, ROWS: gl.constexpr,
                  COLUMNS: gl.constexpr, MORE: gl.constexpr, STAGES: gl.constexpr, GROUP_M: gl.constexpr,
                  B_IS_NK: gl.constexpr, PIECE: gl.constexpr):  # fmt: skip
    """c = max(a @ b, 0): a (M, K), b (K, N) or stored as (N, K), c (M, N), in tiles of 2 * ROWS x (COLUMNS + MORE).

    a_desc has boxes of ROWS x 64, b_desc and more_desc of COLUMNS and MORE columns of B, c_desc of ROWS x PIECE.
    """
    dtype: gl.constexpr = a_desc.dtype
    a_smem = gl.allocate_shared_memory(dtype, [2 * STAGES, ROWS, DEPTH], a_desc.layout)
    b_smem = gl.allocate_shared_memory(dtype, [STAGES] + b_desc.block_type.shape, b_desc.layout)
    more_smem = b_smem
    if MORE:
        more_smem = gl.allocate_shared_memory(dtype, [STAGES] + more_desc.block_type.shape, more_desc.layout)
    c_smem = gl.allocate_shared_memory(dtype, [2, ROWS, PIECE], c_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=2)  # both groups have read it
    fence_async_shared()
    descs, smem = (a_desc, b_desc, more_desc, c_desc), (a_smem, b_smem, more_smem, c_smem)
    bars, work = (full, empty), (tiles_m, tiles_n, steps)
    gl.warp_specialize(
        [
            (multiply, (0, descs, smem, bars, work, ROWS, COLUMNS, MORE, STAGES, GROUP_M, B_IS_NK, PIECE)),
            (multiply, (1, descs, smem, bars, work, ROWS, COLUMNS, MORE, STAGES, GROUP_M, B_IS_NK, PIECE)),
            (produce, (descs, smem, bars, work, ROWS, COLUMNS, MORE, STAGES, GROUP_M, B_IS_NK)),
        ],
        [4, 1],
        [240, 24],
    )


@dataclass(frozen=True)
class Tile:
    """Rows of each of the two groups, columns of the two accumulators, columns that are stored at a time."""

    rows: int
    columns: int
    more: int
    piece: int

    @property
    def shape(self) -> tuple[int, int]:
        return 2 * self.rows, self.columns + self.more

    @property
    def stages(self) -> int:
        """As many as fit beside the pieces of C in the 227 KB of a Hopper SM, with 1 KB left for barriers."""
        stage, pieces = 2 * sum(self.shape) * DEPTH.value, 4 * self.rows * self.piece
        return min(8, (226 * 1024 - pieces) // stage)


TILES = {
    tile.shape: tile
    for tile in (
        Tile(64, 256, 0, 128),
        Tile(128, 128, 64, 64),
        Tile(128, 128, 32, 32),
        Tile(128, 128, 0, 64),
        Tile(64, 128, 64, 64),
        Tile(64, 128, 0, 64),
    )
}
SHAPES = tuple(TILES)
"""(rows, columns) of the tiles that `matmul_relu` knows."""


def matmul_relu(a, b, c, shape: tuple[int, int] = (128, 256)) -> None:
    """c = max(a @ b, 0), fp16: a (M, K), b (K, N) of either layout, c (M, N). What is not aligned is copied."""
    (M, K), N, tile = a.shape, b.shape[1], TILES[shape]
    by_columns = b.stride(0) == 1 and b.stride(1) > 1
    a, b, out = aligned(a), aligned(b.T if by_columns else b), aligned(c, keep=False)

    def described(x, *box):
        return TensorDescriptor.from_tensor(x, list(box), gl.NVMMASharedLayout.get_default_for(list(box), gl.float16))

    def of_b(columns):
        return described(b, columns, DEPTH.value) if by_columns else described(b, DEPTH.value, columns)

    tiles_m, tiles_n = triton.cdiv(M, shape[0]), triton.cdiv(N, shape[1])
    matmul_kernel[(min(device.current().sms, tiles_m * tiles_n),)](
        described(a, tile.rows, DEPTH.value), of_b(tile.columns), of_b(tile.more or tile.columns),
        described(out, tile.rows, tile.piece), tiles_m, tiles_n, triton.cdiv(K, DEPTH.value), ROWS=tile.rows,
        COLUMNS=tile.columns, MORE=tile.more, STAGES=tile.stages, GROUP_M=2048 // shape[0], B_IS_NK=by_columns,
        PIECE=tile.piece, num_warps=4,
    )  # fmt: skip
    if out is not c:
        c.copy_(out)

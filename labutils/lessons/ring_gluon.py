"""The ring of unit 16 in Gluon: one warp copies tiles, eight warps multiply them. Hopper only."""

from __future__ import annotations

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


@gluon.jit
def produce(a_desc, b_desc, a_smem, b_smem, full, empty, row, column, steps, STAGES: gl.constexpr):
    """The producer: one warp that copies the tiles of A and B along K, up to STAGES ahead."""
    for s in range(steps):
        stage, turn = s % STAGES, s // STAGES
        mbarrier.wait(empty.index(stage), turn + 1 & 1)
        mbarrier.expect(full.index(stage), a_desc.block_type.nbytes + b_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(a_desc, [row, s * 64], full.index(stage), a_smem.index(stage))
        tma.async_copy_global_to_shared(b_desc, [column, s * 64], full.index(stage), b_smem.index(stage))


@gluon.jit
def consume(c_desc, a_smem, b_smem, full, empty, row, column, steps, STAGES: gl.constexpr):
    """The consumers: eight warps that multiply the tiles and store 128 x 256 elements of C."""
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
    """c = a @ b^T with a ring of tiles: a (M, K) in boxes of 128 x 64, b (N, K) of 256 x 64, c (M, N) of 128 x 256."""
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


def ring(a, b, c) -> None:
    """c = a @ b.T: a (M, K), b (N, K), c (M, N), fp16; rows must start at multiples of 16 bytes."""

    def described(x, *box):
        return TensorDescriptor.from_tensor(x, list(box), gl.NVMMASharedLayout.get_default_for(list(box), gl.float16))

    descriptors = described(a, 128, 64), described(b, 256, 64), described(c, 128, 256)
    gluon_kernel[(triton.cdiv(c.shape[1], 256), triton.cdiv(c.shape[0], 128))](
        *descriptors, a.shape[1], STAGES=3, num_warps=8
    )

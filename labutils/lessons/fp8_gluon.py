"""E4M3 products with scales of blocks of 128 in Gluon: three groups of warps multiply and scale in turns. Hopper only.

The scheme is DeepGEMM's (github.com/deepseek-ai/DeepGEMM): one warp copies tiles into a ring, each other group takes
64 rows, and scales the sum of a step while the tensor cores work for the others.
"""

from __future__ import annotations

import torch
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

GROUPS, COLUMNS, STAGES, GROUP_M = 3, 128, 4, 8
"""Groups of four warps with 64 rows each, columns of a tile, steps in flight, rows of tiles in a group of tiles."""


@gluon.jit
def corner(tile, tiles_m, tiles_n, GROUP_M: gl.constexpr):
    """(row, column) of a tile, counted in tiles: groups of GROUP_M rows of tiles, in each group column by column."""
    per_group = GROUP_M * tiles_n
    first = tile // per_group * GROUP_M
    rows = gl.minimum(tiles_m - first, GROUP_M)
    return first + tile % per_group % rows, tile % per_group // rows


@gluon.jit
def produce(a_desc, b_desc, a_smem, b_smem, full, empty, tiles_m, tiles_n, steps, GROUPS: gl.constexpr,
            COLUMNS: gl.constexpr, STAGES: gl.constexpr, GROUP_M: gl.constexpr):  # fmt: skip
    """The one warp that copies: for each step of each tile the rows of all groups, and the columns."""
    turn = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        row, column = corner(tile, tiles_m, tiles_n, GROUP_M)
        for k in range(steps):
            stage, phase = turn % STAGES, turn // STAGES & 1
            mbarrier.wait(empty.index(stage), phase ^ 1)
            mbarrier.expect(full.index(stage), GROUPS * a_desc.block_type.nbytes + b_desc.block_type.nbytes)
            for group in gl.static_range(GROUPS):
                where = [(row * GROUPS + group) * 64, k * 128]
                tma.async_copy_global_to_shared(a_desc, where, full.index(stage), a_smem.index(stage * GROUPS + group))
            where = [column * COLUMNS, k * 128]
            tma.async_copy_global_to_shared(b_desc, where, full.index(stage), b_smem.index(stage))
            turn += 1


@gluon.jit
def put(c_desc, c_smem, acc, row, column):
    """Store 64 rows of c by the copy engine, once the last ones have left shared memory."""
    tma.store_wait(0)
    c_smem.store(acc.to(c_desc.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(c_desc, [row, column], c_smem)


@gluon.jit
def multiply(group: gl.constexpr, c_desc, sa_ptr, sb_ptr, M, stride_sam, stride_sak, stride_sbn, stride_sbk,
             a_smem, b_smem, c_smem, full, empty, tiles_m, tiles_n, steps, GROUPS: gl.constexpr,
             COLUMNS: gl.constexpr, STAGES: gl.constexpr, GROUP_M: gl.constexpr):  # fmt: skip
    """The rows of one group: while it scales the sum of a step, the tensor cores work for the other groups."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLUMNS, 32])
    product = gl.zeros([64, COLUMNS], gl.float32, layout)  # its registers serve every step: use_acc is False
    turn = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        row, column = corner(tile, tiles_m, tiles_n, GROUP_M)
        row = (row * GROUPS + group) * 64
        rows = row + gl.arange(0, 64, gl.SliceLayout(1, layout))
        sa_ptrs = sa_ptr + gl.minimum(rows, M - 1) * stride_sam
        sb_ptrs = sb_ptr + column * COLUMNS // 128 * stride_sbn
        acc = gl.zeros([64, COLUMNS], gl.float32, layout)
        scale = gl.load(sa_ptrs) * gl.load(sb_ptrs)
        for k in range(steps):
            stage, phase = turn % STAGES, turn // STAGES & 1
            mbarrier.wait(full.index(stage), phase)
            a, b = a_smem.index(stage * GROUPS + group), b_smem.index(stage).permute((1, 0))
            product = warpgroup_mma(a, b, product, use_acc=False, is_async=True)
            after = gl.minimum(k + 1, steps - 1)  # the next scales are in flight meanwhile
            sa, sb = gl.load(sa_ptrs + after * stride_sak), gl.load(sb_ptrs + after * stride_sbk)
            product = warpgroup_mma_wait(0, [product])
            mbarrier.arrive(empty.index(stage), count=1)
            acc += product * scale[:, None]
            scale = sa * sb
            turn += 1
        put(c_desc, c_smem.index(group), acc, row, column * COLUMNS)
    tma.store_wait(0)


@gluon.jit
def fp8_kernel(a_desc, b_desc, c_desc, sa_ptr, sb_ptr, M, N, K, stride_sam, stride_sak, stride_sbn, stride_sbk,
               GROUPS: gl.constexpr, COLUMNS: gl.constexpr, STAGES: gl.constexpr,
               GROUP_M: gl.constexpr):  # fmt: skip
    """c = a @ b^T with scales, a (M, K) in boxes of 64 x 128, b (N, K) of COLUMNS x 128, c (M, N) of 64 x COLUMNS."""
    tiles_m, tiles_n, steps = gl.cdiv(M, 64 * GROUPS), gl.cdiv(N, COLUMNS), gl.cdiv(K, 128)
    a_smem = gl.allocate_shared_memory(a_desc.dtype, [STAGES * GROUPS, 64, 128], a_desc.layout)
    b_smem = gl.allocate_shared_memory(b_desc.dtype, [STAGES, COLUMNS, 128], b_desc.layout)
    c_smem = gl.allocate_shared_memory(c_desc.dtype, [GROUPS, 64, COLUMNS], c_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=GROUPS)
    fence_async_shared()
    gl.warp_specialize(
        [
            (multiply, (0, c_desc, sa_ptr, sb_ptr, M, stride_sam, stride_sak, stride_sbn, stride_sbk, a_smem,
                        b_smem, c_smem, full, empty, tiles_m, tiles_n, steps, GROUPS, COLUMNS, STAGES,
                        GROUP_M)),
            (multiply, (1, c_desc, sa_ptr, sb_ptr, M, stride_sam, stride_sak, stride_sbn, stride_sbk, a_smem,
                        b_smem, c_smem, full, empty, tiles_m, tiles_n, steps, GROUPS, COLUMNS, STAGES,
                        GROUP_M)),
            (multiply, (2, c_desc, sa_ptr, sb_ptr, M, stride_sam, stride_sak, stride_sbn, stride_sbk, a_smem,
                        b_smem, c_smem, full, empty, tiles_m, tiles_n, steps, GROUPS, COLUMNS, STAGES,
                        GROUP_M)),
            (produce, (a_desc, b_desc, a_smem, b_smem, full, empty, tiles_m, tiles_n, steps, GROUPS,
                       COLUMNS, STAGES, GROUP_M)),
        ],
        [4, 4, 1],
        [160, 160, 32],
    )  # fmt: skip


def fp8_matmul(a, b, sa, sb, c):
    """c (M, N) fp16 = a (M, K) times the transpose of b (N, K), E4M3 codes, with scales of blocks of 128.

    sa (M, K / 128) is read fastest if its columns are contiguous; sb is (N / 128, K / 128). All rows of a, b and c
    begin at multiples of 16 bytes; ValueError where they do not.
    """
    (M, K), N = a.shape, len(b)
    if any(x.stride(1) != 1 or x.stride(0) * x.element_size() % 16 or x.data_ptr() % 16 for x in (a, b, c)):
        raise ValueError("rows of a, b and c must be contiguous and begin at multiples of 16 bytes")

    def described(x, box, kind):
        layout = gl.NVMMASharedLayout.get_default_for(box, kind)
        return TensorDescriptor.from_tensor(x, box, layout)

    sms = torch.cuda.get_device_properties(c.device).multi_processor_count
    programs = min(sms, triton.cdiv(M, 64 * GROUPS) * triton.cdiv(N, COLUMNS))
    fp8_kernel[(programs,)](
        described(a.view(torch.float8_e4m3fn), [64, 128], gl.float8e4nv),
        described(b.view(torch.float8_e4m3fn), [COLUMNS, 128], gl.float8e4nv),
        described(c, [64, COLUMNS], gl.float16),
        sa, sb, M, N, K, *sa.stride(), *sb.stride(),
        GROUPS=GROUPS, COLUMNS=COLUMNS, STAGES=STAGES, GROUP_M=GROUP_M, num_warps=4,
    )  # fmt: skip

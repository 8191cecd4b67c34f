"""FlashAttention in Gluon for Hopper: one warp copies tiles, each warpgroup computes 64 queries. Unit 17's last level.

The learner writes the start of an iteration (`overlap` in the notebook), which is passed in as ITERATION.
"""

from __future__ import annotations

from collections.abc import Callable

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

from ..gpu import device

LOG2_E = 1.4426950408889634
LN_2 = gl.constexpr(0.6931471805599453)


@gluon.jit
def load_tiles(q_desc, k_desc, v_desc, smem, bars, q_row, kv_row, tiles, BLOCK_N: gl.constexpr,
               STAGES: gl.constexpr, GROUPS: gl.constexpr):  # fmt: skip
    """The warp that copies: Q of all groups, then K and V tile by tile, the last tile first."""
    q_smem, k_smem, v_smem = smem
    q_full, k_full, k_empty, v_full, v_empty = bars
    mbarrier.expect(q_full, GROUPS * q_desc.block_type.nbytes)
    for group in gl.static_range(GROUPS):
        tma.async_copy_global_to_shared(q_desc, [q_row + 64 * group, 0], q_full, q_smem.index(group))
    for turn in range(tiles):
        stage, phase = turn % STAGES, turn // STAGES & 1
        row = kv_row + (tiles - 1 - turn) * BLOCK_N
        mbarrier.wait(k_empty.index(stage), phase ^ 1)
        mbarrier.expect(k_full.index(stage), k_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(k_desc, [row, 0], k_full.index(stage), k_smem.index(stage))
        mbarrier.wait(v_empty.index(stage), phase ^ 1)
        mbarrier.expect(v_full.index(stage), v_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(v_desc, [row, 0], v_full.index(stage), v_smem.index(stage))


@gluon.jit
def attend(group: gl.constexpr, out_desc, lse_ptr, smem, bars, q_row, first, tiles, N, scale, D: gl.constexpr,
           BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, STAGES: gl.constexpr,
           ITERATION: gl.constexpr):  # fmt: skip
    """64 queries: the products of the next scores and of the current weights run during the softmax."""
    q_smem, k_smem, v_smem = smem
    q_full, k_full, k_empty, v_full, v_empty = bars
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, o_layout, 2)
    o_rows: gl.constexpr = gl.SliceLayout(1, o_layout)
    s_rows: gl.constexpr = gl.SliceLayout(1, s_layout)
    dtype: gl.constexpr = q_smem.dtype
    q = q_smem.index(group)
    acc = gl.zeros([64, D], gl.float32, o_layout)
    zeros = gl.zeros([64, BLOCK_N], gl.float32, s_layout)
    start = gl.maximum(tiles - gl.cdiv(first + 64 * (group + 1), BLOCK_N), 0) if CAUSAL else 0
    for turn in range(start):  # tiles after this group's last query; at most STAGES of them
        mbarrier.arrive(k_empty.index(turn), count=1)
        mbarrier.arrive(v_empty.index(turn), count=1)
    mbarrier.wait(q_full, 0)
    mbarrier.wait(k_full.index(start % STAGES), start // STAGES & 1)
    s = warpgroup_mma(q, k_smem.index(start % STAGES).permute((1, 0)), zeros, use_acc=False, is_async=True)
    s = warpgroup_mma_wait(0, [s])
    mbarrier.arrive(k_empty.index(start % STAGES), count=1)
    if CAUSAL:  # the only tile with keys that some of the group's queries see and others do not
        rows = first + 64 * group + gl.arange(0, 64, s_rows)
        keys = (tiles - 1 - start) * BLOCK_N + gl.arange(0, BLOCK_N, gl.SliceLayout(0, s_layout))
        s = gl.where(rows[:, None] >= keys[None, :], s, -float("inf"))
    m = gl.max(s, 1) * scale
    p = gl.exp2(s * scale - m[:, None])
    total = gl.sum(p, 1)
    weights = gl.convert_layout(p.to(dtype), p_layout)
    for turn in range(start + 1, tiles):
        stage, phase = turn % STAGES, turn // STAGES & 1
        before, phase_before = (turn - 1) % STAGES, (turn - 1) // STAGES & 1
        mbarrier.wait(k_full.index(stage), phase)
        mbarrier.wait(v_full.index(before), phase_before)
        p, acc, m, total, factor = ITERATION(
            q, k_smem.index(stage).permute((1, 0)), v_smem.index(before), k_empty.index(stage), zeros, weights, acc,
            m, total, scale,
        )  # fmt: skip
        mbarrier.arrive(v_empty.index(before), count=1)
        acc = acc * gl.convert_layout(factor, o_rows)[:, None]
        weights = gl.convert_layout(p.to(dtype), p_layout)
    last, phase_last = (tiles - 1) % STAGES, (tiles - 1) // STAGES & 1
    mbarrier.wait(v_full.index(last), phase_last)
    acc = warpgroup_mma(weights, v_smem.index(last), acc, is_async=True)
    acc, weights = warpgroup_mma_wait(0, [acc, weights])
    if first + 64 * group < N:
        out = acc * (1 / gl.convert_layout(total, o_rows))[:, None]
        q.store(out.to(dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(out_desc, [q_row + 64 * group, 0], q)
        gl.store(lse_ptr + q_row + 64 * group + gl.arange(0, 64, s_rows), (m + gl.log2(total)) * LN_2)
        tma.store_wait(0)


@gluon.jit
def flash_kernel(q_desc, k_desc, v_desc, out_desc, lse_ptr, N, scale, GROUP, D: gl.constexpr,
                 BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, STAGES: gl.constexpr,
                 GROUPS: gl.constexpr, ITERATION: gl.constexpr):  # fmt: skip
    """out = softmax(q k^T / sqrt(D)) v and its log-sum-exp, N = M a multiple of BLOCK_N, contiguous heads.

    q_desc, out_desc  (H * N, D), tiles 64 x D      k_desc, v_desc  (HK * N, D), tiles BLOCK_N x D
    One program computes 64 * GROUPS queries of one head: 64 for each group of four warps; one warp copies.
    """
    head, pid_m = gl.program_id(1), gl.num_programs(0) - 1 - gl.program_id(0)
    first = pid_m * 64 * GROUPS
    q_row, kv_row = head * N + first, head // GROUP * N
    tiles = gl.cdiv(gl.minimum(first + 64 * GROUPS, N), BLOCK_N) if CAUSAL else N // BLOCK_N
    dtype: gl.constexpr = q_desc.dtype
    q_smem = gl.allocate_shared_memory(dtype, [GROUPS, 64, D], q_desc.layout)
    k_smem = gl.allocate_shared_memory(dtype, [STAGES, BLOCK_N, D], k_desc.layout)
    v_smem = gl.allocate_shared_memory(dtype, [STAGES, BLOCK_N, D], v_desc.layout)
    q_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    mbarrier.init(q_full, count=1)
    for stage in gl.static_range(STAGES):
        mbarrier.init(k_full.index(stage), count=1)
        mbarrier.init(v_full.index(stage), count=1)
        mbarrier.init(k_empty.index(stage), count=GROUPS)  # all groups have read it
        mbarrier.init(v_empty.index(stage), count=GROUPS)
    fence_async_shared()
    smem, bars = (q_smem, k_smem, v_smem), (q_full, k_full, k_empty, v_full, v_empty)
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (
                    attend,
                    (
                        0,
                        out_desc,
                        lse_ptr,
                        smem,
                        bars,
                        q_row,
                        first,
                        tiles,
                        N,
                        scale,
                        D,
                        BLOCK_N,
                        CAUSAL,
                        STAGES,
                        ITERATION,
                    ),
                ),
                (
                    attend,
                    (
                        1,
                        out_desc,
                        lse_ptr,
                        smem,
                        bars,
                        q_row,
                        first,
                        tiles,
                        N,
                        scale,
                        D,
                        BLOCK_N,
                        CAUSAL,
                        STAGES,
                        ITERATION,
                    ),
                ),
                (load_tiles, (q_desc, k_desc, v_desc, smem, bars, q_row, kv_row, tiles, BLOCK_N, STAGES, GROUPS)),
            ],
            [4, 1],
            [240, 24],
        )
    else:
        gl.warp_specialize(
            [
                (
                    attend,
                    (
                        0,
                        out_desc,
                        lse_ptr,
                        smem,
                        bars,
                        q_row,
                        first,
                        tiles,
                        N,
                        scale,
                        D,
                        BLOCK_N,
                        CAUSAL,
                        STAGES,
                        ITERATION,
                    ),
                ),
                (
                    attend,
                    (
                        1,
                        out_desc,
                        lse_ptr,
                        smem,
                        bars,
                        q_row,
                        first,
                        tiles,
                        N,
                        scale,
                        D,
                        BLOCK_N,
                        CAUSAL,
                        STAGES,
                        ITERATION,
                    ),
                ),
                (
                    attend,
                    (
                        2,
                        out_desc,
                        lse_ptr,
                        smem,
                        bars,
                        q_row,
                        first,
                        tiles,
                        N,
                        scale,
                        D,
                        BLOCK_N,
                        CAUSAL,
                        STAGES,
                        ITERATION,
                    ),
                ),
                (load_tiles, (q_desc, k_desc, v_desc, smem, bars, q_row, kv_row, tiles, BLOCK_N, STAGES, GROUPS)),
            ],
            [4, 4, 1],
            [160, 160, 24],
        )


def usable(q, k, BLOCK_N: int = 128) -> bool:
    """Whether the kernel supports these arrays, (H, M, D) and (HK, N, D), on this GPU."""
    gpu, (_, M, D), N = device.current(), q.shape, k.shape[1]
    return bool(gpu) and gpu.capability[0] == 9 and M == N and N % BLOCK_N == 0 and D in (64, 128)


def launcher(iteration) -> Callable[..., None]:
    """The kernel with this ITERATION as a function of (q, k, v, out, lse, causal), shapes as in unit 17.

    It raises ValueError for arrays that the kernel does not support.
    """

    def flash(q, k, v, out, lse, causal=1, BLOCK_N=128, STAGES=2):
        (H, N, D), HK = q.shape, len(k)
        if not usable(q, k, BLOCK_N):
            raise ValueError("needs Hopper, M = N, a multiple of BLOCK_N, and D = 64 or 128")
        if not all(x.is_contiguous() for x in (q, k, v, out, lse)):
            raise ValueError("needs contiguous arrays")
        kind = gl.bfloat16 if q.dtype == torch.bfloat16 else gl.float16
        groups = 2 if D == 128 else 3  # as many as the registers allow

        def described(x, rows):
            layout = gl.NVMMASharedLayout.get_default_for([rows, D], kind)
            return TensorDescriptor.from_tensor(x.view(-1, D), [rows, D], layout)

        flash_kernel[(triton.cdiv(N, 64 * groups), H)](
            described(q, 64), described(k, BLOCK_N), described(v, BLOCK_N), described(out, 64), lse, N,
            LOG2_E * D**-0.5, H // HK, D=D, BLOCK_N=BLOCK_N, CAUSAL=bool(causal), STAGES=STAGES, GROUPS=groups,
            ITERATION=iteration, num_warps=4,
        )  # fmt: skip

    return flash

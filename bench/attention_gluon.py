"""Attention for Hopper in Gluon: what Triton's own scheduler does not do to the loop of `17_flash_attention/flash`.

A warp of its own copies tiles; two groups of four warps own 64 queries each. In every turn a group starts the product
of the next scores and the one of these weights and values together. `attend` then waits for the scores, so that its
softmax meets the second product; `attend_ahead` computes the softmax of scores that are there already, so that it meets
both, for which it holds two tiles of scores. Needs compute capability 9.0, fp16 or bf16 heads that lie behind each
other, M = N, a multiple of 128.
"""

import torch
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

from labutils import device

LN_2 = gl.constexpr(0.6931471805599453)
LOG2_E = 1.4426950408889634
ROWS = 128
"""Queries of a program: two groups of 64."""


@gluon.jit
def load_tiles(q_desc, k_desc, v_desc, q_smem, k_smem, v_smem, q_full, k_full, k_empty, v_full, v_empty,
               q_row, kv_row, tiles, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, UP: gl.constexpr):  # fmt: skip
    """The one warp that copies: Q of both groups, then K and V of one tile after another, with UP the first first."""
    mbarrier.expect(q_full, 2 * q_desc.block_type.nbytes)
    for group in gl.static_range(2):
        tma.async_copy_global_to_shared(q_desc, [q_row + 64 * group, 0], q_full, q_smem.index(group))
    for turn in range(tiles):
        stage, phase = turn % STAGES, turn // STAGES & 1
        row = kv_row + (turn if UP else tiles - 1 - turn) * BLOCK_N
        mbarrier.wait(k_empty.index(stage), phase ^ 1)
        mbarrier.expect(k_full.index(stage), k_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(k_desc, [row, 0], k_full.index(stage), k_smem.index(stage))
        mbarrier.wait(v_empty.index(stage), phase ^ 1)
        mbarrier.expect(v_full.index(stage), v_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(v_desc, [row, 0], v_full.index(stage), v_smem.index(stage))


@gluon.jit
def attend(group: gl.constexpr, out_desc, lse_ptr, q_smem, k_smem, v_smem, q_full, k_full, k_empty, v_full, v_empty,
           q_row, first, tiles, scale, D: gl.constexpr, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr,
           STAGES: gl.constexpr):  # fmt: skip
    """64 queries: the product of the next scores and that of these weights run while the softmax is computed."""
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, o_layout, 2)
    o_rows: gl.constexpr = gl.SliceLayout(1, o_layout)
    s_rows: gl.constexpr = gl.SliceLayout(1, s_layout)
    dtype: gl.constexpr = q_smem.dtype
    q = q_smem.index(group)
    acc = gl.zeros([64, D], gl.float32, o_layout)
    zeros = gl.zeros([64, BLOCK_N], gl.float32, s_layout)
    mbarrier.wait(q_full, 0)
    mbarrier.wait(k_full.index(0), 0)
    s = warpgroup_mma(q, k_smem.index(0).permute((1, 0)), zeros, use_acc=False, is_async=True)
    s = warpgroup_mma_wait(0, [s])
    mbarrier.arrive(k_empty.index(0), count=1)
    if CAUSAL:
        rows = first + 64 * group + gl.arange(0, 64, s_rows)
        keys = (tiles - 1) * BLOCK_N + gl.arange(0, BLOCK_N, gl.SliceLayout(0, s_layout))
        s = gl.where(rows[:, None] >= keys[None, :], s, -float("inf"))
    m = gl.max(s, 1) * scale
    p = gl.exp2(s * scale - m[:, None])
    total = gl.sum(p, 1)
    weights = gl.convert_layout(p.to(dtype), p_layout)
    for turn in range(1, tiles):
        stage, phase = turn % STAGES, turn // STAGES & 1
        before, phase_before = (turn - 1) % STAGES, (turn - 1) // STAGES & 1
        mbarrier.wait(k_full.index(stage), phase)
        mbarrier.wait(v_full.index(before), phase_before)
        s = warpgroup_mma(q, k_smem.index(stage).permute((1, 0)), zeros, use_acc=False, is_async=True)
        acc = warpgroup_mma(weights, v_smem.index(before), acc, is_async=True)
        s = warpgroup_mma_wait(1, [s])
        mbarrier.arrive(k_empty.index(stage), count=1)
        m_new = gl.maximum(m, gl.max(s, 1) * scale)
        p = gl.exp2(s * scale - m_new[:, None])
        factor = gl.exp2(m - m_new)
        total = total * factor + gl.sum(p, 1)
        m = m_new
        acc, weights = warpgroup_mma_wait(0, [acc, weights])
        mbarrier.arrive(v_empty.index(before), count=1)
        acc = acc * gl.convert_layout(factor, o_rows)[:, None]
        weights = gl.convert_layout(p.to(dtype), p_layout)
    last, phase_last = (tiles - 1) % STAGES, (tiles - 1) // STAGES & 1
    mbarrier.wait(v_full.index(last), phase_last)
    acc = warpgroup_mma(weights, v_smem.index(last), acc, is_async=True)
    acc, weights = warpgroup_mma_wait(0, [acc, weights])
    out = acc * (1 / gl.convert_layout(total, o_rows))[:, None]
    q.store(out.to(dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(out_desc, [q_row + 64 * group, 0], q)
    gl.store(lse_ptr + q_row + 64 * group + gl.arange(0, 64, s_rows), (m + gl.log2(total)) * LN_2)
    tma.store_wait(0)


@gluon.jit
def softmax_step(s, m, total, scale, dtype: gl.constexpr, p_layout: gl.constexpr):
    """Weights of one more tile of scores: (m, total, weights, factor of what was summed before)."""
    m_new = gl.maximum(m, gl.max(s, 1) * scale)
    p = gl.exp2(s * scale - m_new[:, None])
    factor = gl.exp2(m - m_new)
    return m_new, total * factor + gl.sum(p, 1), gl.convert_layout(p.to(dtype), p_layout), factor


@gluon.jit
def attend_ahead(group: gl.constexpr, out_desc, lse_ptr, q_smem, k_smem, v_smem, q_full, k_full, k_empty, v_full,
                 v_empty, q_row, first, tiles, scale, D: gl.constexpr, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr,
                 STAGES: gl.constexpr):  # fmt: skip
    """64 queries: while the softmax of tile t is computed, tensor cores do scores of t + 1 and values of t - 1."""
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, o_layout, 2)
    o_rows: gl.constexpr = gl.SliceLayout(1, o_layout)
    s_rows: gl.constexpr = gl.SliceLayout(1, s_layout)
    dtype: gl.constexpr = q_smem.dtype
    q = q_smem.index(group)
    acc = gl.zeros([64, D], gl.float32, o_layout)
    zeros = gl.zeros([64, BLOCK_N], gl.float32, s_layout)
    rows = first + 64 * group + gl.arange(0, 64, s_rows)
    keys = gl.arange(0, BLOCK_N, gl.SliceLayout(0, s_layout))
    mbarrier.wait(q_full, 0)
    mbarrier.wait(k_full.index(0), 0)
    s0 = warpgroup_mma(q, k_smem.index(0).permute((1, 0)), zeros, use_acc=False, is_async=True)
    s0 = warpgroup_mma_wait(0, [s0])
    mbarrier.arrive(k_empty.index(0), count=1)
    if CAUSAL:
        s0 = gl.where(rows[:, None] >= keys[None, :], s0, -float("inf"))
    mbarrier.wait(k_full.index(1), 0)
    s = warpgroup_mma(q, k_smem.index(1).permute((1, 0)), zeros, use_acc=False, is_async=True)
    m = gl.max(s0, 1) * scale
    p = gl.exp2(s0 * scale - m[:, None])
    total = gl.sum(p, 1)
    weights = gl.convert_layout(p.to(dtype), p_layout)
    s = warpgroup_mma_wait(0, [s])
    mbarrier.arrive(k_empty.index(1), count=1)
    for turn in range(1, tiles - 1):
        stage, phase = (turn + 1) % STAGES, (turn + 1) // STAGES & 1
        before, phase_before = (turn - 1) % STAGES, (turn - 1) // STAGES & 1
        mbarrier.wait(k_full.index(stage), phase)
        s_next = warpgroup_mma(q, k_smem.index(stage).permute((1, 0)), zeros, use_acc=False, is_async=True)
        mbarrier.wait(v_full.index(before), phase_before)
        acc = warpgroup_mma(weights, v_smem.index(before), acc, is_async=True)
        m, total, following, factor = softmax_step(s, m, total, scale, dtype, p_layout)
        s, acc, weights = warpgroup_mma_wait(0, [s_next, acc, weights])
        mbarrier.arrive(k_empty.index(stage), count=1)
        mbarrier.arrive(v_empty.index(before), count=1)
        acc = acc * gl.convert_layout(factor, o_rows)[:, None]
        weights = following
    before, phase_before = (tiles - 2) % STAGES, (tiles - 2) // STAGES & 1
    mbarrier.wait(v_full.index(before), phase_before)
    acc = warpgroup_mma(weights, v_smem.index(before), acc, is_async=True)
    if CAUSAL:
        s = gl.where(rows[:, None] >= (tiles - 1) * BLOCK_N + keys[None, :], s, -float("inf"))
    m, total, following, factor = softmax_step(s, m, total, scale, dtype, p_layout)
    acc, weights = warpgroup_mma_wait(0, [acc, weights])
    acc = acc * gl.convert_layout(factor, o_rows)[:, None]
    last, phase_last = (tiles - 1) % STAGES, (tiles - 1) // STAGES & 1
    mbarrier.wait(v_full.index(last), phase_last)
    acc = warpgroup_mma(following, v_smem.index(last), acc, is_async=True)
    acc, following = warpgroup_mma_wait(0, [acc, following])
    out = acc * (1 / gl.convert_layout(total, o_rows))[:, None]
    q.store(out.to(dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(out_desc, [q_row + 64 * group, 0], q)
    gl.store(lse_ptr + q_row + 64 * group + gl.arange(0, 64, s_rows), (m + gl.log2(total)) * LN_2)
    tma.store_wait(0)


@gluon.jit
def specialised_kernel(q_desc, k_desc, v_desc, out_desc, lse_ptr, N, scale, GROUP, D: gl.constexpr,
                       BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, STAGES: gl.constexpr,
                       AHEAD: gl.constexpr):  # fmt: skip
    """out = softmax(q k^T / sqrt(D)) v and its log-sum-exp, N = M a multiple of 128, heads behind each other.

    q_desc, out_desc  (H * N, D), tiles 64 x D      k_desc, v_desc  (HK * N, D), tiles BLOCK_N x D
    One program computes 128 queries of one head: two groups of four warps with 64 each, and a warp that copies.
    """
    head, pid_m = gl.program_id(1), gl.num_programs(0) - 1 - gl.program_id(0)
    first = pid_m * 128
    q_row, kv_row = head * N + first, head // GROUP * N
    tiles = gl.cdiv(first + 128, BLOCK_N) if CAUSAL else N // BLOCK_N
    if AHEAD:
        tiles = gl.maximum(tiles, 2)
    dtype: gl.constexpr = q_desc.dtype
    q_smem = gl.allocate_shared_memory(dtype, [2, 64, D], q_desc.layout)
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
        mbarrier.init(k_empty.index(stage), count=2)  # both groups have read it
        mbarrier.init(v_empty.index(stage), count=2)
    fence_async_shared()
    if AHEAD:
        gl.warp_specialize(
            [
                (attend_ahead, (0, out_desc, lse_ptr, q_smem, k_smem, v_smem, q_full, k_full, k_empty, v_full, v_empty,
                          q_row, first, tiles, scale, D, BLOCK_N, CAUSAL, STAGES)),
                (attend_ahead, (1, out_desc, lse_ptr, q_smem, k_smem, v_smem, q_full, k_full, k_empty, v_full, v_empty,
                          q_row, first, tiles, scale, D, BLOCK_N, CAUSAL, STAGES)),
                (load_tiles, (q_desc, k_desc, v_desc, q_smem, k_smem, v_smem, q_full, k_full, k_empty, v_full, v_empty,
                              q_row, kv_row, tiles, BLOCK_N, STAGES, True)),
            ],
            [4, 1],
            [240, 24],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (attend, (0, out_desc, lse_ptr, q_smem, k_smem, v_smem, q_full, k_full, k_empty, v_full, v_empty,
                          q_row, first, tiles, scale, D, BLOCK_N, CAUSAL, STAGES)),
                (attend, (1, out_desc, lse_ptr, q_smem, k_smem, v_smem, q_full, k_full, k_empty, v_full, v_empty,
                          q_row, first, tiles, scale, D, BLOCK_N, CAUSAL, STAGES)),
                (load_tiles, (q_desc, k_desc, v_desc, q_smem, k_smem, v_smem, q_full, k_full, k_empty, v_full, v_empty,
                              q_row, kv_row, tiles, BLOCK_N, STAGES, False)),
            ],
            [4, 1],
            [240, 24],
        )  # fmt: skip


def usable(q, k) -> bool:
    """Whether the kernel can take these arrays, (H, M, D) and (HK, N, D), on the GPU at hand."""
    hopper = device.has_gpu() and device.current().capability[0] == 9
    return (
        hopper and q.shape[1] == k.shape[1] and q.shape[1] % ROWS == 0 and q.shape[1] > ROWS and q.shape[2] in (64, 128)
    )


def specialised(q, k, v, out, lse, causal=1, BLOCK_N=128, STAGES=None, AHEAD=None):
    """As `flash` of unit 17."""
    (H, N, D), HK = q.shape, len(k)
    ahead = D == 64 if AHEAD is None else AHEAD  # two tiles of scores beside 128 columns of sums would spill
    if not usable(q, k) or (causal and BLOCK_N != ROWS) or N % BLOCK_N:
        raise ValueError("specialised: M = N, a multiple of 128 and of BLOCK_N, on Hopper; causal with BLOCK_N = 128")
    if not all(x.is_contiguous() for x in (q, k, v, out, lse)):
        raise ValueError("specialised: heads must lie behind each other")
    kind = gl.bfloat16 if q.dtype == torch.bfloat16 else gl.float16

    def described(x, rows):
        layout = gl.NVMMASharedLayout.get_default_for([rows, D], kind)
        return TensorDescriptor.from_tensor(x.view(-1, D), [rows, D], layout)

    specialised_kernel[(N // ROWS, H)](
        described(q, 64), described(k, BLOCK_N), described(v, BLOCK_N), described(out, 64), lse, N, LOG2_E * D**-0.5,
        H // HK, D=D, BLOCK_N=BLOCK_N, CAUSAL=bool(causal), STAGES=STAGES or (4 if ahead else 2),
        AHEAD=ahead, num_warps=4,
    )  # fmt: skip

"""FlashAttention in Gluon for Hopper: one warp copies tiles, each warpgroup computes 64 queries. Unit 17's last level.

The programs are persistent: one per SM, each with a list of pieces of work, so that loads for the next piece run while
the last one ends. The learner writes the start of an iteration (`overlap` in the notebook), which is passed in as
ITERATION.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Callable, Sequence

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
barrier = getattr(gl, "thread_barrier", None) or gl.barrier  # named so until Triton 3.6


@gluon.jit
def piece_of(i, work, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, GROUPS: gl.constexpr):
    """The i-th piece of work: its first query in the head, first row of Q and of K, and number of tiles of keys."""
    start_ptr, order_ptr, N, GROUP = work
    piece, per_head = gl.load(order_ptr + i), gl.cdiv(N, 64 * GROUPS)
    head, first = piece // per_head, piece % per_head * 64 * GROUPS
    tiles = gl.cdiv(gl.minimum(first + 64 * GROUPS, N), BLOCK_N) if CAUSAL else N // BLOCK_N
    return first, head * N + first, head // GROUP * N, tiles


@gluon.jit
def pieces(work):
    """This program's pieces are begin, ..., end - 1."""
    start_ptr, order_ptr, N, GROUP = work
    return gl.load(start_ptr + gl.program_id(0)), gl.load(start_ptr + gl.program_id(0) + 1)


@gluon.jit
def load_tiles(inputs, smem, bars, work, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, STAGES: gl.constexpr,
               GROUPS: gl.constexpr):  # fmt: skip
    """The warp that copies: for each piece Q of all groups, then K and V tile by tile, the last tile first.

    It fetches Q of the next piece while the groups still compute the last tile and store the output of this one.
    """
    q_desc, k_desc, v_desc = inputs
    q_smem, k_smem, v_smem, out_smem = smem
    q_full, q_empty, k_full, k_empty, v_full, v_empty = bars
    begin, end = pieces(work)
    done = 0  # tiles of the pieces before this one
    for i in range(begin, end):
        first, q_row, kv_row, tiles = piece_of(i, work, BLOCK_N, CAUSAL, GROUPS)
        mbarrier.wait(q_empty, (i - begin & 1) ^ 1)
        mbarrier.expect(q_full, GROUPS * q_desc.block_type.nbytes)
        for group in gl.static_range(GROUPS):
            tma.async_copy_global_to_shared(q_desc, [q_row + 64 * group, 0], q_full, q_smem.index(group))
        for turn in range(tiles):
            stage, phase = (done + turn) % STAGES, (done + turn) // STAGES & 1
            row = kv_row + (tiles - 1 - turn) * BLOCK_N
            mbarrier.wait(k_empty.index(stage), phase ^ 1)
            mbarrier.expect(k_full.index(stage), k_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(k_desc, [row, 0], k_full.index(stage), k_smem.index(stage))
            mbarrier.wait(v_empty.index(stage), phase ^ 1)
            mbarrier.expect(v_full.index(stage), v_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(v_desc, [row, 0], v_full.index(stage), v_smem.index(stage))
        done += tiles


@gluon.jit
def store_rows(out_desc, out_tile, lse_ptr, q_row, acc, m, total, s_rows: gl.constexpr, o_rows: gl.constexpr):
    """out = acc / total (64, D) through shared memory, once its last rows have left it, and lse (64,)."""
    out = acc * (1 / gl.convert_layout(total, o_rows))[:, None]
    tma.store_wait(0)
    barrier()
    out_tile.store(out.to(out_tile.dtype))
    fence_async_shared()
    barrier()
    tma.async_copy_shared_to_global(out_desc, [q_row, 0], out_tile)
    gl.store(lse_ptr + q_row + gl.arange(0, 64, s_rows), (m + gl.log2(total)) * LN_2)


@gluon.jit
def attend(group: gl.constexpr, outputs, smem, bars, work, scale, D: gl.constexpr, BLOCK_N: gl.constexpr,
           CAUSAL: gl.constexpr, STAGES: gl.constexpr, GROUPS: gl.constexpr, ITERATION: gl.constexpr):  # fmt: skip
    """64 queries of each piece: the products of the next scores and of the current weights run during the softmax."""
    out_desc, lse_ptr = outputs
    start_ptr, order_ptr, N, GROUP = work
    q_smem, k_smem, v_smem, out_smem = smem
    q_full, q_empty, k_full, k_empty, v_full, v_empty = bars
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, o_layout, 2)
    o_rows: gl.constexpr = gl.SliceLayout(1, o_layout)
    s_rows: gl.constexpr = gl.SliceLayout(1, s_layout)
    dtype: gl.constexpr = q_smem.dtype
    q = q_smem.index(group)
    zeros = gl.zeros([64, BLOCK_N], gl.float32, s_layout)
    begin, end = pieces(work)
    done = 0
    for i in range(begin, end):
        first, q_row, kv_row, tiles = piece_of(i, work, BLOCK_N, CAUSAL, GROUPS)
        first, q_row = first + 64 * group, q_row + 64 * group
        acc = gl.zeros([64, D], gl.float32, o_layout)
        skipped = gl.maximum(tiles - gl.cdiv(first + 64, BLOCK_N), 0) if CAUSAL else 0
        for turn in range(done, done + skipped):  # tiles after this group's last query
            stage, phase = turn % STAGES, turn // STAGES & 1
            mbarrier.wait(k_full.index(stage), phase)
            mbarrier.wait(v_full.index(stage), phase)
            mbarrier.arrive(k_empty.index(stage), count=1)
            mbarrier.arrive(v_empty.index(stage), count=1)
        mbarrier.wait(q_full, i - begin & 1)
        stage, phase = (done + skipped) % STAGES, (done + skipped) // STAGES & 1
        mbarrier.wait(k_full.index(stage), phase)
        s = warpgroup_mma(q, k_smem.index(stage).permute((1, 0)), zeros, use_acc=False, is_async=True)
        s = warpgroup_mma_wait(0, [s])
        mbarrier.arrive(k_empty.index(stage), count=1)
        if CAUSAL:  # the only tile with keys that some of the group's queries see and others do not
            queries = first + gl.arange(0, 64, s_rows)
            keys = (tiles - 1 - skipped) * BLOCK_N + gl.arange(0, BLOCK_N, gl.SliceLayout(0, s_layout))
            s = gl.where(queries[:, None] >= keys[None, :], s, -float("inf"))
        m = gl.max(s, 1) * scale
        p = gl.exp2(s * scale - m[:, None])
        total = gl.sum(p, 1)
        weights = gl.convert_layout(p.to(dtype), p_layout)
        for turn in range(done + skipped + 1, done + tiles):
            stage, phase = turn % STAGES, turn // STAGES & 1
            before, phase_before = (turn - 1) % STAGES, (turn - 1) // STAGES & 1
            mbarrier.wait(k_full.index(stage), phase)
            mbarrier.wait(v_full.index(before), phase_before)
            p, acc, m, total, factor = ITERATION(
                q, k_smem.index(stage).permute((1, 0)), v_smem.index(before), k_empty.index(stage), zeros, weights,
                acc, m, total, scale,
            )  # fmt: skip
            mbarrier.arrive(v_empty.index(before), count=1)
            acc = acc * gl.convert_layout(factor, o_rows)[:, None]
            weights = gl.convert_layout(p.to(dtype), p_layout)
        mbarrier.arrive(q_empty, count=1)
        done += tiles
        last, phase_last = (done - 1) % STAGES, (done - 1) // STAGES & 1
        mbarrier.wait(v_full.index(last), phase_last)
        acc = warpgroup_mma(weights, v_smem.index(last), acc, is_async=True)
        acc, weights = warpgroup_mma_wait(0, [acc, weights])
        mbarrier.arrive(v_empty.index(last), count=1)
        if first < N:
            store_rows(out_desc, out_smem.index(group), lse_ptr, q_row, acc, m, total, s_rows, o_rows)
    tma.store_wait(0)


@gluon.jit
def flash_kernel(q_desc, k_desc, v_desc, out_desc, lse_ptr, start_ptr, order_ptr, N, scale, GROUP, D: gl.constexpr,
                 BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, STAGES: gl.constexpr,
                 GROUPS: gl.constexpr, ITERATION: gl.constexpr):  # fmt: skip
    """out = softmax(q k^T / sqrt(D)) v and its log-sum-exp, N = M a multiple of BLOCK_N, contiguous heads.

    q_desc, out_desc  (H * N, D), tiles 64 x D      k_desc, v_desc  (HK * N, D), tiles BLOCK_N x D
    start_ptr, order_ptr: program p computes the pieces order[start[p]], ..., order[start[p + 1] - 1], see `schedule`
    A piece of work is 64 * GROUPS queries of one head: 64 for each group of four warps; one warp copies.
    """
    dtype: gl.constexpr = q_desc.dtype
    q_smem = gl.allocate_shared_memory(dtype, [GROUPS, 64, D], q_desc.layout)
    out_smem = gl.allocate_shared_memory(dtype, [GROUPS, 64, D], q_desc.layout)
    k_smem = gl.allocate_shared_memory(dtype, [STAGES, BLOCK_N, D], k_desc.layout)
    v_smem = gl.allocate_shared_memory(dtype, [STAGES, BLOCK_N, D], v_desc.layout)
    q_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    mbarrier.init(q_full, count=1)
    mbarrier.init(q_empty, count=GROUPS)  # all groups have read it
    for stage in gl.static_range(STAGES):
        mbarrier.init(k_full.index(stage), count=1)
        mbarrier.init(v_full.index(stage), count=1)
        mbarrier.init(k_empty.index(stage), count=GROUPS)
        mbarrier.init(v_empty.index(stage), count=GROUPS)
    fence_async_shared()
    smem = (q_smem, k_smem, v_smem, out_smem)
    bars = (q_full, q_empty, k_full, k_empty, v_full, v_empty)
    inputs, outputs, work = (q_desc, k_desc, v_desc), (out_desc, lse_ptr), (start_ptr, order_ptr, N, GROUP)
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (attend, (0, outputs, smem, bars, work, scale, D, BLOCK_N, CAUSAL, STAGES, GROUPS, ITERATION)),
                (attend, (1, outputs, smem, bars, work, scale, D, BLOCK_N, CAUSAL, STAGES, GROUPS, ITERATION)),
                (load_tiles, (inputs, smem, bars, work, BLOCK_N, CAUSAL, STAGES, GROUPS)),
            ],
            [4, 1],
            [240, 24],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (attend, (0, outputs, smem, bars, work, scale, D, BLOCK_N, CAUSAL, STAGES, GROUPS, ITERATION)),
                (attend, (1, outputs, smem, bars, work, scale, D, BLOCK_N, CAUSAL, STAGES, GROUPS, ITERATION)),
                (attend, (2, outputs, smem, bars, work, scale, D, BLOCK_N, CAUSAL, STAGES, GROUPS, ITERATION)),
                (load_tiles, (inputs, smem, bars, work, BLOCK_N, CAUSAL, STAGES, GROUPS)),
            ],
            [4, 4, 1],
            [160, 160, 24],
        )  # fmt: skip


def schedule(heads: int, costs: Sequence[int], programs: int, together: int = 4) -> list[list[int]]:
    """The pieces of work of each program: piece i of a head takes `costs[i]` iterations and is numbered
    head * len(costs) + i.

    Heads come in groups of `together`, so that K and V of a group stay in the L2 cache. In a group, the longest pieces
    come first, and each piece goes to the program that is free first; half an iteration is added for its start and end.
    """
    given: list[list[int]] = [[] for _ in range(programs)]
    free = [(0.0, program) for program in range(programs)]
    longest_first = sorted(range(len(costs)), key=lambda i: (-costs[i], -i))
    for group in range(0, heads, together):
        for i, head in itertools.product(longest_first, range(group, min(group + together, heads))):
            at, program = heapq.heappop(free)
            given[program].append(head * len(costs) + i)
            heapq.heappush(free, (at + costs[i] + 0.5, program))
    return given


@functools.lru_cache(64)
def on_device(heads, N, rows, BLOCK_N, causal, where):
    """(start, order) of the schedule as int32 arrays on the GPU `where`, and its number of programs: one per SM."""
    firsts = range(0, N, rows)
    costs = [triton.cdiv(min(first + rows, N) if causal else N, BLOCK_N) for first in firsts]
    programs = min(torch.cuda.get_device_properties(where).multi_processor_count, heads * len(costs))
    given = schedule(heads, costs, programs)
    start = list(itertools.accumulate(map(len, given), initial=0))
    order = list(itertools.chain.from_iterable(given))
    return *(torch.tensor(x, dtype=torch.int32, device=where) for x in (start, order)), programs


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
        start, order, programs = on_device(H, N, 64 * groups, BLOCK_N, bool(causal), q.device)

        def described(x, rows):
            layout = gl.NVMMASharedLayout.get_default_for([rows, D], kind)
            return TensorDescriptor.from_tensor(x.view(-1, D), [rows, D], layout)

        flash_kernel[(programs,)](
            described(q, 64), described(k, BLOCK_N), described(v, BLOCK_N), described(out, 64), lse, start, order, N,
            LOG2_E * D**-0.5, H // HK, D=D, BLOCK_N=BLOCK_N, CAUSAL=bool(causal), STAGES=STAGES, GROUPS=groups,
            ITERATION=iteration, num_warps=4,
        )  # fmt: skip

    return flash

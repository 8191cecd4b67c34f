"""FlashAttention in Gluon for Hopper: one warp copies tiles, each warpgroup computes 64 queries. Unit 17's last level.

The programs are persistent: one per SM, each with a list of pieces of work, so that loads for the next piece run while
the last one ends. The learner writes the start of an iteration (`overlap` in the notebook), which is passed in as
START.
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
    """The i-th piece of work: its first query, its head, the head of its keys, and its number of tiles of keys."""
    start_ptr, order_ptr, N, GROUP = work
    piece, per_head = gl.load(order_ptr + i), gl.cdiv(N, 64 * GROUPS)
    head, first = piece // per_head, piece % per_head * 64 * GROUPS
    tiles = gl.cdiv(gl.minimum(first + 64 * GROUPS, N) if CAUSAL else N, BLOCK_N)
    return first, head, head // GROUP, tiles


@gluon.jit
def pieces(work):
    """This program's pieces are begin, ..., end - 1."""
    start_ptr, order_ptr, N, GROUP = work
    return gl.load(start_ptr + gl.program_id(0)), gl.load(start_ptr + gl.program_id(0) + 1)


@gluon.jit
def load_tiles(inputs, smem, bars, work, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, STAGES: gl.constexpr,
               GROUPS: gl.constexpr):  # fmt: skip
    """The warp that copies: for each piece Q of all groups, and K and V tile by tile, the last tile first.

    A stage holds K of one tile and V of the tile before, which an iteration reads together. The first tile of a piece
    comes with the last V of the piece before. So the loads go on while the groups end a piece and store its output.
    """
    q_desc, k_desc, v_desc = inputs
    q_smem, k_smem, v_smem, out_smem = smem
    q_full, q_empty, full, empty, turns = bars
    begin, end = pieces(work)
    done = 0  # tiles of K so far
    v_head, v_row = 0, 0
    for i in range(begin, end):
        first, head, key_head, tiles = piece_of(i, work, BLOCK_N, CAUSAL, GROUPS)
        for turn in range(tiles):
            stage, phase = done % STAGES, done // STAGES & 1
            row = (tiles - 1 - turn) * BLOCK_N
            mbarrier.wait(empty.index(stage), phase ^ 1)
            if done > 0:
                mbarrier.expect(full.index(stage), k_desc.block_type.nbytes + v_desc.block_type.nbytes)
                tma.async_copy_global_to_shared(v_desc, [v_head, v_row, 0], full.index(stage), v_smem.index(stage))
            else:
                mbarrier.expect(full.index(stage), k_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(k_desc, [key_head, row, 0], full.index(stage), k_smem.index(stage))
            if turn == 0:
                mbarrier.wait(q_empty, (i - begin & 1) ^ 1)
                mbarrier.expect(q_full, GROUPS * q_desc.block_type.nbytes)
                for group in gl.static_range(GROUPS):
                    tma.async_copy_global_to_shared(q_desc, [head, first + 64 * group, 0], q_full, q_smem.index(group))
            v_head, v_row = key_head, row
            done += 1
    stage, phase = done % STAGES, done // STAGES & 1
    mbarrier.wait(empty.index(stage), phase ^ 1)
    mbarrier.expect(full.index(stage), v_desc.block_type.nbytes)
    tma.async_copy_global_to_shared(v_desc, [v_head, v_row, 0], full.index(stage), v_smem.index(stage))


# --- a tile's softmax -------------------------------------------------------------------------------------------------


@gluon.jit
def row_max(x):
    """(64, n) -> (64,): each lane first finds two maxima of a row, side by side, which takes half as long as one."""
    most = gl.max(gl.max(gl.reshape(x, [64, x.shape[1] // 8, 8]), 1), 1)
    return gl.convert_layout(most, gl.SliceLayout(1, x.type.layout), assert_trivial=True)


@gluon.jit
def lane_sums(x, layout: gl.constexpr):
    """(64, n) -> (64, 8): each lane adds what it has of a row. Lanes exchange nothing before the last tile is done."""
    return gl.convert_layout(gl.sum(gl.reshape(x, [64, x.shape[1] // 8, 8]), 1), layout, assert_trivial=True)


@gluon.jit
def halves(x, layout: gl.constexpr):
    """The left and the right half of the columns of x, in the registers that they are in."""
    left, right = gl.split(gl.permute(gl.reshape(x, [64, 2, x.shape[1] // 2]), [0, 2, 1]))
    return gl.convert_layout(left, layout, assert_trivial=True), gl.convert_layout(right, layout, assert_trivial=True)


@gluon.jit
def packed(p, dtype: gl.constexpr):
    """(64, n) fp32 -> (64, n / 2) int32: two neighbors in each register, rounded to dtype.

    The loop carries the weights in this form to the next iteration. As numbers of 16 bits, some groups would carry them
    one by one, and put each pair together again in front of the product.
    """
    even, odd = gl.split(gl.reshape(p, [64, p.shape[1] // 2, 2]))
    text: gl.constexpr = "cvt.rn." + ("bf16" if dtype == gl.bfloat16 else "f16") + "x2.f32 $0, $2, $1;"
    return gl.inline_asm_elementwise(text, "=r,r,r", [even, odd], dtype=gl.int32, is_pure=True, pack=1)


@gluon.jit
def unpacked(pairs, dtype: gl.constexpr, layout: gl.constexpr):
    """(64, n / 2) int32 -> (64, n): the numbers of `packed`, in the same registers."""
    even = (pairs & 0xFFFF).to(gl.int16).to(dtype, bitcast=True)
    odd = (pairs >> 16).to(gl.int16).to(dtype, bitcast=True)
    both = gl.reshape(gl.join(even, odd), [64, pairs.shape[1] * 2])
    return gl.convert_layout(both, layout, assert_trivial=True)


# --- a group ----------------------------------------------------------------------------------------------------------


@gluon.jit
def store_rows(out_desc, out_tile, lse_ptr, head, first, N, acc, m, total, D: gl.constexpr, s_rows: gl.constexpr,
               o_rows: gl.constexpr):  # fmt: skip
    """out = acc / total (64, D) through shared memory, once its last rows have left it, and lse (64,).

    The TMA stores no rows past the end of the head.
    """
    out = acc * (1 / gl.convert_layout(total, o_rows))[:, None]
    tma.store_wait(0)
    barrier()
    out_tile.reshape([64, D]).store(out.to(out_tile.dtype))
    fence_async_shared()
    barrier()
    tma.async_copy_shared_to_global(out_desc, [head, first, 0], out_tile)
    rows = first + gl.arange(0, 64, s_rows)
    gl.store(lse_ptr + head.to(gl.int64) * N + rows, (m + gl.log2(total)) * LN_2, mask=rows < N)


@gluon.jit
def attend(group: gl.constexpr, outputs, smem, bars, work, scale, D: gl.constexpr, BLOCK_N: gl.constexpr,
           CAUSAL: gl.constexpr, TAIL: gl.constexpr, STAGES: gl.constexpr, GROUPS: gl.constexpr,
           START: gl.constexpr):  # fmt: skip
    """64 queries of each piece: the products of the next scores and of the current weights run during the softmax.

    The groups start their products in turns, so that some multiply while others compute exponentials. The softmax of a
    tile comes in two halves of its keys. Between them, the group waits for the product with the last tile's weights. So
    the second half of the exponentials runs beside the rounding of the first, and beside the rescaling of acc.
    """
    out_desc, lse_ptr = outputs
    start_ptr, order_ptr, N, GROUP = work
    q_smem, k_smem, v_smem, out_smem = smem
    q_full, q_empty, full, empty, turns = bars
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    half_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N // 2, 16])
    sums_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 8, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, o_layout, 2)
    s_rows: gl.constexpr = gl.SliceLayout(1, s_layout)
    half_rows: gl.constexpr = gl.SliceLayout(1, half_layout)
    sums_rows: gl.constexpr = gl.SliceLayout(1, sums_layout)
    o_rows: gl.constexpr = gl.SliceLayout(1, o_layout)
    dtype: gl.constexpr = q_smem.dtype
    q = q_smem.index(group).reshape([64, D])
    zeros = gl.zeros([64, BLOCK_N], gl.float32, s_layout)
    next_turn = turns.index((group + 1) % GROUPS)
    begin, end = pieces(work)
    done = 0  # tiles of the pieces before this one
    for i in range(begin, end):
        first, head, key_head, tiles = piece_of(i, work, BLOCK_N, CAUSAL, GROUPS)
        first += 64 * group
        skipped = gl.maximum(tiles - gl.cdiv(first + 64, BLOCK_N), 0) if CAUSAL else 0
        skipped = gl.where(first < N, skipped, tiles)
        for turn in range(done, done + skipped):  # tiles after this group's last query, or all: it has no queries
            mbarrier.wait(turns.index(group), turn & 1)
            mbarrier.arrive(next_turn, count=1)
            mbarrier.wait(full.index(turn % STAGES), turn // STAGES & 1)
            mbarrier.arrive(empty.index(turn % STAGES), count=1)
        if skipped < tiles:
            turn = done + skipped
            mbarrier.wait(q_full, i - begin & 1)
            mbarrier.wait(full.index(turn % STAGES), turn // STAGES & 1)
            mbarrier.wait(turns.index(group), turn & 1)
            k_t = k_smem.index(turn % STAGES).reshape([BLOCK_N, D]).permute((1, 0))
            s = warpgroup_mma(q, k_t, zeros, use_acc=False, is_async=True)
            mbarrier.arrive(next_turn, count=1)
            s = warpgroup_mma_wait(0, [s])
            mbarrier.arrive(empty.index(turn % STAGES), count=1)
            if CAUSAL or TAIL:  # only this tile has keys that some queries do not see, or keys past the end
                queries = first + gl.arange(0, 64, s_rows)
                keys = (tiles - 1 - skipped) * BLOCK_N + gl.arange(0, BLOCK_N, gl.SliceLayout(0, s_layout))
                seen = queries[:, None] >= keys[None, :] if CAUSAL else keys[None, :] < N
                s = gl.where(seen, s, -float("inf"))
            m = row_max(s) * scale
            p = gl.exp2(s * scale - m[:, None])
            sums = lane_sums(p, sums_layout)
            p_left, p_right = halves(p, half_layout)
            left, right = packed(p_left, dtype), packed(p_right, dtype)
            acc = gl.zeros([64, D], gl.float32, o_layout)
            for turn in range(done + skipped + 1, done + tiles):
                stage = turn % STAGES
                mbarrier.wait(full.index(stage), turn // STAGES & 1)
                mbarrier.wait(turns.index(group), turn & 1)
                k_t = k_smem.index(stage).reshape([BLOCK_N, D]).permute((1, 0))
                v = v_smem.index(stage).reshape([BLOCK_N, D])
                left, right = unpacked(left, dtype, p_layout), unpacked(right, dtype, p_layout)
                s, acc = START(q, k_t, v, zeros, left, right, acc, next_turn)
                m_new = gl.maximum(m, row_max(s) * scale)
                factor = gl.exp2(m - m_new)
                m = m_new
                s_left, s_right = halves(s, half_layout)
                p_left = gl.exp2(s_left * scale - gl.convert_layout(m, half_rows)[:, None])
                sums = sums * gl.convert_layout(factor, sums_rows)[:, None] + lane_sums(p_left, sums_layout)
                if D == 128:
                    # This wait ends at once, but ptxas does not move the next one up over it, as it does otherwise: to
                    # the row maximum. For D = 64 that is early enough, because the product takes half as long.
                    mbarrier.wait(q_full, i - begin & 1)
                acc, left, right = warpgroup_mma_wait(0, [acc, left, right])
                mbarrier.arrive(empty.index(stage), count=1)
                p_right = gl.exp2(s_right * scale - gl.convert_layout(m, half_rows)[:, None])
                sums += lane_sums(p_right, sums_layout)
                acc = acc * gl.convert_layout(factor, o_rows)[:, None]
                left, right = packed(p_left, dtype), packed(p_right, dtype)
            mbarrier.arrive(q_empty, count=1)
            turn = done + tiles  # the last V comes with the next piece's first K
            mbarrier.wait(full.index(turn % STAGES), turn // STAGES & 1)
            v = v_smem.index(turn % STAGES).reshape([BLOCK_N, D])
            left, right = unpacked(left, dtype, p_layout), unpacked(right, dtype, p_layout)
            acc = warpgroup_mma(left, v.slice(0, BLOCK_N // 2), acc, is_async=True)
            acc = warpgroup_mma(right, v.slice(BLOCK_N // 2, BLOCK_N // 2), acc, is_async=True)
            acc, left, right = warpgroup_mma_wait(0, [acc, left, right])
            total = gl.convert_layout(gl.sum(sums, 1), s_rows)
            store_rows(out_desc, out_smem.index(group), lse_ptr, head, first, N, acc, m, total, D, s_rows, o_rows)
        else:
            mbarrier.arrive(q_empty, count=1)
        done += tiles
    tma.store_wait(0)


@gluon.jit
def flash_kernel(q_desc, k_desc, v_desc, out_desc, lse_ptr, start_ptr, order_ptr, N, scale, GROUP, D: gl.constexpr,
                 BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, TAIL: gl.constexpr, STAGES: gl.constexpr,
                 GROUPS: gl.constexpr, START: gl.constexpr):  # fmt: skip
    """out = softmax(q k^T / sqrt(D)) v and its log-sum-exp, N = M >= 1, contiguous heads.

    q_desc, out_desc  (H, N, D), tiles 1 x 64 x D      k_desc, v_desc  (HK, N, D), tiles 1 x BLOCK_N x D
    TAIL: whether the last tile of keys is not full
    start_ptr, order_ptr: program p computes the pieces order[start[p]], ..., order[start[p + 1] - 1], see `schedule`
    A piece of work is 64 * GROUPS queries of one head: 64 for each group of four warps; one warp copies.
    """
    dtype: gl.constexpr = q_desc.dtype
    q_smem = gl.allocate_shared_memory(dtype, [GROUPS, 1, 64, D], q_desc.layout)
    out_smem = gl.allocate_shared_memory(dtype, [GROUPS, 1, 64, D], q_desc.layout)
    k_smem = gl.allocate_shared_memory(dtype, [STAGES, 1, BLOCK_N, D], k_desc.layout)
    v_smem = gl.allocate_shared_memory(dtype, [STAGES, 1, BLOCK_N, D], v_desc.layout)
    q_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    turns = gl.allocate_shared_memory(gl.int64, [GROUPS, 1], mbarrier.MBarrierLayout())
    mbarrier.init(q_full, count=1)
    mbarrier.init(q_empty, count=GROUPS)  # all groups have read it
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=GROUPS)
    for group in gl.static_range(GROUPS):
        mbarrier.init(turns.index(group), count=1)
    fence_async_shared()
    mbarrier.arrive(turns.index(0), count=1)  # the first turn
    smem, bars = (q_smem, k_smem, v_smem, out_smem), (q_full, q_empty, full, empty, turns)
    inputs, outputs, work = (q_desc, k_desc, v_desc), (out_desc, lse_ptr), (start_ptr, order_ptr, N, GROUP)
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (attend, (0, outputs, smem, bars, work, scale, D, BLOCK_N, CAUSAL, TAIL, STAGES, GROUPS, START)),
                (attend, (1, outputs, smem, bars, work, scale, D, BLOCK_N, CAUSAL, TAIL, STAGES, GROUPS, START)),
                (load_tiles, (inputs, smem, bars, work, BLOCK_N, CAUSAL, STAGES, GROUPS)),
            ],
            [4, 1],
            [240, 24],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (attend, (0, outputs, smem, bars, work, scale, D, BLOCK_N, CAUSAL, TAIL, STAGES, GROUPS, START)),
                (attend, (1, outputs, smem, bars, work, scale, D, BLOCK_N, CAUSAL, TAIL, STAGES, GROUPS, START)),
                (attend, (2, outputs, smem, bars, work, scale, D, BLOCK_N, CAUSAL, TAIL, STAGES, GROUPS, START)),
                (load_tiles, (inputs, smem, bars, work, BLOCK_N, CAUSAL, STAGES, GROUPS)),
            ],
            [4, 4, 1],
            [160, 160, 24],
        )  # fmt: skip


def schedule(heads: int, costs: Sequence[float], programs: int, together: int = 4) -> list[list[int]]:
    """The pieces of work of each program: piece i of a head takes `costs[i]` iterations and is numbered
    head * len(costs) + i.

    Heads come in groups of `together`, so that K and V of a group stay in the L2 cache. In a group, the longest pieces
    come first, and each piece goes to the program that is free first; an iteration is added for its start and end. The
    last group has four pieces or more for each program, so that its short pieces even out how long the programs work.
    """
    given: list[list[int]] = [[] for _ in range(programs)]
    free = [(0.0, program) for program in range(programs)]
    longest_first = sorted(range(len(costs)), key=lambda i: (-costs[i], -i))
    last = max(heads - triton.cdiv(4 * programs, len(costs)), 0) // together * together
    for group in [*(range(head, head + together) for head in range(0, last, together)), range(last, heads)]:
        for i, head in itertools.product(longest_first, group):
            at, program = heapq.heappop(free)
            given[program].append(head * len(costs) + i)
            heapq.heappush(free, (at + costs[i] + 1, program))
    return given


@functools.lru_cache(64)
def on_device(heads, N, rows, BLOCK_N, causal, where):
    """(start, order) of the schedule as int32 arrays on the GPU `where`, and its number of programs: one per SM."""
    firsts = range(0, N, rows)
    costs = [float(triton.cdiv(min(first + rows, N) if causal else N, BLOCK_N)) for first in firsts]
    costs[-1] *= 0.3 + 0.7 * triton.cdiv(N - firsts[-1], 64) * 64 / rows  # not all groups have queries
    programs = min(torch.cuda.get_device_properties(where).multi_processor_count, heads * len(costs))
    given = schedule(heads, costs, programs)
    start = list(itertools.accumulate(map(len, given), initial=0))
    order = list(itertools.chain.from_iterable(given))
    return *(torch.tensor(x, dtype=torch.int32, device=where) for x in (start, order)), programs


def usable(q, k) -> bool:
    """Whether the kernel supports these arrays, (H, M, D) and (HK, N, D), on this GPU."""
    gpu, (_, M, D), N = device.current(), q.shape, k.shape[1]
    return bool(gpu) and gpu.capability[0] == 9 and M == N and D in (64, 128)


def launcher(start) -> Callable[..., None]:
    """The kernel with this START as a function of (q, k, v, out, lse, causal), shapes as in unit 17.

    It raises ValueError for arrays that the kernel does not support.
    """

    def flash(q, k, v, out, lse, causal=1, BLOCK_N=128, STAGES=2):
        (H, N, D), HK = q.shape, len(k)
        if not usable(q, k):
            raise ValueError("needs Hopper, M = N, and D = 64 or 128")
        if not all(x.is_contiguous() for x in (q, k, v, out, lse)):
            raise ValueError("needs contiguous arrays")
        kind = gl.bfloat16 if q.dtype == torch.bfloat16 else gl.float16
        groups = 2 if D == 128 else 3  # as many as the registers allow
        begin, order, programs = on_device(H, N, 64 * groups, BLOCK_N, bool(causal), q.device)

        def described(x, rows):
            layout = gl.NVMMASharedLayout.get_default_for([1, rows, D], kind)
            return TensorDescriptor.from_tensor(x, [1, rows, D], layout)

        flash_kernel[(programs,)](
            described(q, 64), described(k, BLOCK_N), described(v, BLOCK_N), described(out, 64), lse, begin, order, N,
            LOG2_E * D**-0.5, H // HK, D=D, BLOCK_N=BLOCK_N, CAUSAL=bool(causal), TAIL=bool(N % BLOCK_N and not causal),
            STAGES=STAGES, GROUPS=groups, START=start, num_warps=4,
        )  # fmt: skip

    return flash

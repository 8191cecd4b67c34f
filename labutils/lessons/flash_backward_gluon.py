"""The backward pass of attention in Gluon for Hopper, in one kernel and five products. Shown in unit 18.

A program owns 128 keys of one key head, like `dkdv_kernel` of unit 18: one warp copies tiles of queries, and two
warpgroups compute with them, for 64 keys each. The program also multiplies dS by K for dQ. So S and dP are computed
once; unit 18 computes them twice, seven products in all. But all programs of a head then add to the same rows of dQ.
Another warp has the copy engine add them in fp32. The order of these adds varies: two runs may differ in the last bits
of dQ. dK and dV are deterministic.

There are three kernels: `prepare_kernel` computes delta and writes zeros to the sums of dQ, `backward_kernel` computes
the five products, and `convert_kernel` rounds the sums to dQ.

A head may have any number of queries: the copy engine reads zeros past its end, and stores no rows there.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from triton._C.libtriton.ir import DESCRIPTOR_REDUCE_KIND
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from ..gpu import device

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = gl.constexpr(0.6931471805599453)
BLOCK_M, STAGES, TOGETHER = 64, 2, 8
"""Queries of a tile, tiles in flight, and key heads whose programs run side by side and share the L2 cache."""
barrier = getattr(gl, "thread_barrier", None) or gl.barrier  # named so until Triton 3.6


@builtin
def async_add(descriptor, at, tile, _semantic=None):
    """The copy engine adds a tile of shared memory to global memory. Triton compiles this; Gluon has no name for it."""
    at = _semantic._convert_to_ir_values(at, require_i64=False)
    _semantic.builder.create_async_tma_reduce(DESCRIPTOR_REDUCE_KIND.ADD, descriptor.handle, at, tile.handle)


@gluon.jit
def load_tiles(inputs, smem, bars, place, GROUP: gl.constexpr, BLOCK_M: gl.constexpr, STAGES: gl.constexpr):
    """The warp that copies: K and V once, then Q with lse and dO with delta, tile by tile."""
    q_desc, k_desc, v_desc, dout_desc, lse_desc, delta_desc = inputs
    k_smem, v_smem, q_smem, dout_smem, lse_smem, delta_smem, ds_smem, dq_smem = smem
    kv_full, full, empty, ds_full, dq_full, dq_empty = bars
    key_head, first, first_tile, tiles = place
    mbarrier.expect(kv_full, 2 * k_desc.block_type.nbytes)
    tma.async_copy_global_to_shared(k_desc, [key_head, first, 0], kv_full, k_smem.reshape(k_desc.block_shape))
    tma.async_copy_global_to_shared(v_desc, [key_head, first, 0], kv_full, v_smem.reshape(v_desc.block_shape))
    turn = 0
    for head in range(key_head * GROUP, key_head * GROUP + GROUP):
        for tile in range(first_tile, tiles):
            stage, phase = turn % STAGES, turn // STAGES & 1
            at, row, bar = [head, tile * BLOCK_M, 0], head * tiles + tile, full.index(stage)
            mbarrier.wait(empty.index(stage), phase ^ 1)
            mbarrier.expect(bar, 2 * (q_desc.block_type.nbytes + lse_desc.block_type.nbytes))
            tma.async_copy_global_to_shared(q_desc, at, bar, q_smem.index(stage).reshape(q_desc.block_shape))
            tma.async_copy_global_to_shared(lse_desc, [row, 0], bar, lse_smem.index(stage))
            tma.async_copy_global_to_shared(dout_desc, at, bar, dout_smem.index(stage).reshape(dout_desc.block_shape))
            tma.async_copy_global_to_shared(delta_desc, [row, 0], bar, delta_smem.index(stage))
            turn += 1


@gluon.jit
def add_tiles(sums_desc, smem, bars, place, GROUP: gl.constexpr):
    """The warp that adds: for each tile of queries, each group's half of dQ."""
    dq_smem, dq_full, dq_empty = smem[7], bars[4], bars[5]
    key_head, first, first_tile, tiles = place
    turn = 0
    for head in range(key_head * GROUP, key_head * GROUP + GROUP):
        for tile in range(first_tile, tiles):
            for group in gl.static_range(2):
                half = (head * tiles + tile) * 2 + group
                mbarrier.wait(dq_full.index(group), turn & 1)
                async_add(sums_desc, [half * sums_desc.block_shape[0], 0], dq_smem.index(group))
            tma.store_wait(1)  # the first half has been read
            mbarrier.arrive(dq_empty.index(0), count=1)
            tma.store_wait(0)
            mbarrier.arrive(dq_empty.index(1), count=1)
            turn += 1


@gluon.jit
def give_dq(dq, tile, BLOCK_M: gl.constexpr, D: gl.constexpr):
    """Store dq (BLOCK_M, D / 2) in shared memory in the order of the accumulator's registers.

    In rows of dQ, a lane holds only 2 neighbors. In this order, a lane stores 16 contiguous bytes, and a warp 512.
    """
    parts = gl.reshape(dq, [BLOCK_M // 16, 2, 8, D // 16, 4, 2])
    tile.store(gl.reshape(gl.permute(parts, [3, 0, 2, 4, 1, 5]), [BLOCK_M * D // 512, 256]))


@gluon.jit
def store_gradients(outputs, dk, dv, dk_tile, dv_tile, at):
    """Store dK and dV (64, D) through shared memory that is no longer read."""
    dk_desc, dv_desc = outputs
    dk_tile.store(dk.to(dk_tile.dtype))
    dv_tile.store(dv.to(dv_tile.dtype))
    fence_async_shared()
    barrier()
    tma.async_copy_shared_to_global(dk_desc, at, dk_tile.reshape(dk_desc.block_shape))
    tma.async_copy_shared_to_global(dv_desc, at, dv_tile.reshape(dv_desc.block_shape))
    tma.store_wait(0)


@gluon.jit
def tile_gradients(dk, dv, turn, late, last, group: gl.constexpr, smem, bars, scale, D: gl.constexpr,
                   BLOCK_M: gl.constexpr, CAUSAL: gl.constexpr, LAST: gl.constexpr, STAGES: gl.constexpr):  # fmt: skip
    """dk and dv with the turn-th tile of queries added; its dQ goes to the warp that adds.

    CAUSAL: the tile's first query is `late` keys after the program's first. LAST: only the first `last` keys are there.
    """
    k_smem, v_smem, q_smem, dout_smem, lse_smem, delta_smem, ds_smem, dq_smem = smem
    kv_full, full, empty, ds_full, dq_full, dq_empty = bars
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    dq_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D // 2, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, dk.type.layout, 2)
    dtype: gl.constexpr = q_smem.dtype
    k, v = k_smem.slice(64 * group, 64, dim=0), v_smem.slice(64 * group, 64, dim=0)
    zeros = gl.zeros([64, BLOCK_M], gl.float32, s_layout)
    stage, slot = turn % STAGES, turn % 2
    q, dout = q_smem.index(stage), dout_smem.index(stage)
    mbarrier.wait(full.index(stage), turn // STAGES & 1)
    s = warpgroup_mma(k, q.permute((1, 0)), zeros, use_acc=False, is_async=True)
    dp = warpgroup_mma(v, dout.permute((1, 0)), zeros, use_acc=False, is_async=True)
    lse = lse_smem.index(stage).load(s_layout)
    s = warpgroup_mma_wait(1, [s])
    p = gl.exp2(s * scale - lse)
    delta = delta_smem.index(stage).load(s_layout)
    keys = 64 * group + gl.arange(0, 64, gl.SliceLayout(1, s_layout))
    if CAUSAL:
        columns = gl.arange(0, BLOCK_M, gl.SliceLayout(0, s_layout))
        p = gl.where(late + columns[None, :] >= keys[:, None], p, 0.0)
    if LAST:
        p = gl.where(keys[:, None] < last, p, 0.0)
    dp = warpgroup_mma_wait(0, [dp])
    ds = (p * (dp - delta)).to(dtype)
    weights, ds_operand = gl.convert_layout(p.to(dtype), operand), gl.convert_layout(ds, operand)
    ds_smem.index(slot).slice(64 * group, 64, dim=1).permute((1, 0)).store(ds)
    dv = warpgroup_mma(weights, dout, dv, is_async=True)
    fence_async_shared()
    barrier()
    mbarrier.arrive(ds_full.index(slot), count=1)
    mbarrier.wait(ds_full.index(slot), turn // 2 & 1)  # both groups have stored their part
    dq = warpgroup_mma(ds_smem.index(slot), k_smem.slice(group * (D // 2), D // 2, dim=1),
                       gl.zeros([BLOCK_M, D // 2], gl.float32, dq_layout), use_acc=False, is_async=True)  # fmt: skip
    dk = warpgroup_mma(ds_operand, q, dk, is_async=True)
    dv, dq, weights = warpgroup_mma_wait(1, [dv, dq, weights])
    mbarrier.wait(dq_empty.index(group), (turn & 1) ^ 1)
    give_dq(dq, dq_smem.index(group), BLOCK_M, D)
    fence_async_shared()
    barrier()
    mbarrier.arrive(dq_full.index(group), count=1)
    dk, ds_operand = warpgroup_mma_wait(0, [dk, ds_operand])
    mbarrier.arrive(empty.index(stage), count=1)
    return dk, dv


@gluon.jit
def differentiate(group: gl.constexpr, outputs, smem, bars, place, M, scale, GROUP: gl.constexpr, D: gl.constexpr,
                  BLOCK_M: gl.constexpr, CAUSAL: gl.constexpr, RAGGED: gl.constexpr, STAGES: gl.constexpr):  # fmt: skip
    """A warpgroup: dK and dV of its 64 keys, and half of the columns of dQ for all 128 keys.

    S^T, dP^T and dS^T are (64, BLOCK_M), for its own keys. P and dS stay in registers, as an operand of the products
    for dV and dK. dQ is a sum over keys, so each group also stores its part of dS (BLOCK_M, 128) in shared memory, and
    computes one half of dQ, (BLOCK_M, D / 2), from all of dS. dS has two slots: the other group may still read one.
    """
    kv_full, full, empty, ds_full, dq_full, dq_empty = bars
    key_head, first, first_tile, tiles = place
    d_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    dk, dv = gl.zeros([64, D], gl.float32, d_layout), gl.zeros([64, D], gl.float32, d_layout)
    turn = 0
    mbarrier.wait(kv_full, 0)
    for _ in range(GROUP):
        on_diagonal = gl.minimum(128 // BLOCK_M, tiles - first_tile) if CAUSAL else 0
        for i in range(on_diagonal):  # not a branch in the other loop, which would divide its instructions
            dk, dv = tile_gradients(
                dk, dv, turn, i * BLOCK_M, 0, group, smem, bars, scale, D, BLOCK_M, True, False, STAGES
            )
            turn += 1
        for _ in range(first_tile + on_diagonal, tiles):  # none if CAUSAL and this program has keys past M
            dk, dv = tile_gradients(
                dk, dv, turn, 0, M - first, group, smem, bars, scale, D, BLOCK_M, False, RAGGED and not CAUSAL, STAGES
            )
            turn += 1
    mbarrier.arrive(ds_full.index(turn % 2), count=1)
    mbarrier.wait(ds_full.index(turn % 2), turn // 2 & 1)  # the other group has read its last tile
    barrier()
    q_smem, dout_smem = smem[2], smem[3]
    at = [key_head, first + 64 * group, 0]
    store_gradients(outputs, dk * (scale * LN_2), dv, q_smem.index(group), dout_smem.index(group), at)


@gluon.jit
def backward_kernel(q_desc, k_desc, v_desc, dout_desc, lse_desc, delta_desc, dk_desc, dv_desc, sums_desc, M, scale,
                    together, GROUP: gl.constexpr, D: gl.constexpr, BLOCK_M: gl.constexpr, CAUSAL: gl.constexpr,
                    RAGGED: gl.constexpr, STAGES: gl.constexpr):  # fmt: skip
    """dk = dS^T q / sqrt(D) and dv = P^T dout, and adds dS k to the sums; M = N, contiguous heads.

    q_desc, dout_desc     (H, M, D), tiles 1 x BLOCK_M x D     lse_desc, delta_desc  (H * tiles, BLOCK_M) fp32 as
    k_desc, v_desc        (HK, M, D), tiles 1 x 128 x D            `prepare_kernel` writes them, tiles of one row
    dk_desc, dv_desc      (HK, M, D), tiles 1 x 64 x D
    sums_desc             H * tiles * BLOCK_M * D fp32 in rows of 256, tiles of half of dQ for BLOCK_M queries, in the
                          order of `give_dq`; zeros before
    A head has ceil(M / BLOCK_M) tiles of queries. RAGGED: M is not a multiple of 128, the keys of a program.
    One program computes the gradients of 128 keys of one key head from the queries of its GROUP heads: 64 keys for each
    of two groups of four warps; one warp copies, another adds. Consecutive programs take the same keys of `together`
    key heads, then the next keys, which a causal mask shows to fewer queries.
    """
    in_heads = together * gl.cdiv(M, 128)  # programs of `together` heads
    heads, place_in_heads = gl.program_id(0) // in_heads, gl.program_id(0) % in_heads
    key_head, first = heads * together + place_in_heads % together, place_in_heads // together * 128
    place = (key_head, first, first // BLOCK_M if CAUSAL else 0, gl.cdiv(M, BLOCK_M))
    dtype: gl.constexpr = q_desc.dtype
    tile_layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BLOCK_M, D], dtype)
    k_smem = gl.allocate_shared_memory(dtype, [128, D], tile_layout)
    v_smem = gl.allocate_shared_memory(dtype, [128, D], tile_layout)
    q_smem = gl.allocate_shared_memory(dtype, [STAGES, BLOCK_M, D], tile_layout)
    dout_smem = gl.allocate_shared_memory(dtype, [STAGES, BLOCK_M, D], tile_layout)
    lse_smem = gl.allocate_shared_memory(gl.float32, [STAGES, 1, BLOCK_M], lse_desc.layout)
    delta_smem = gl.allocate_shared_memory(gl.float32, [STAGES, 1, BLOCK_M], delta_desc.layout)
    ds_smem = gl.allocate_shared_memory(dtype, [2, BLOCK_M, 128], tile_layout)
    dq_smem = gl.allocate_shared_memory(gl.float32, [2, BLOCK_M * D // 512, 256], sums_desc.layout)
    kv_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    ds_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    dq_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    dq_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    mbarrier.init(kv_full, count=1)
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=2)  # both groups have read it
    for i in gl.static_range(2):
        mbarrier.init(ds_full.index(i), count=2)
        mbarrier.init(dq_full.index(i), count=1)
        mbarrier.init(dq_empty.index(i), count=1)
    fence_async_shared()
    inputs, outputs = (q_desc, k_desc, v_desc, dout_desc, lse_desc, delta_desc), (dk_desc, dv_desc)
    smem = (k_smem, v_smem, q_smem, dout_smem, lse_smem, delta_smem, ds_smem, dq_smem)
    bars = (kv_full, full, empty, ds_full, dq_full, dq_empty)
    gl.warp_specialize(
        [
            (differentiate, (0, outputs, smem, bars, place, M, scale, GROUP, D, BLOCK_M, CAUSAL, RAGGED, STAGES)),
            (differentiate, (1, outputs, smem, bars, place, M, scale, GROUP, D, BLOCK_M, CAUSAL, RAGGED, STAGES)),
            (load_tiles, (inputs, smem, bars, place, GROUP, BLOCK_M, STAGES)),
            (add_tiles, (sums_desc, smem, bars, place, GROUP)),
        ],
        [4, 1, 1],
        [240, 24, 24],
    )


@triton.jit
def prepare_kernel(out_ptr, dout_ptr, lse_ptr, lse2_ptr, delta_ptr, sums_ptr, M, D: tl.constexpr,
                   BLOCK_M: tl.constexpr):  # fmt: skip
    """For a tile of queries: delta = sum of out * dout, lse2 = lse * log2 e, and zeros in the sums.

    The rows past M of a head's last tile get delta = 0 and lse2 = inf: their P and dS are 0.
    """
    tile = tl.program_id(0).to(tl.int64)
    tiles = tl.cdiv(M, BLOCK_M)
    rows = tile % tiles * BLOCK_M + tl.arange(0, BLOCK_M)
    inside, row = rows < M, tile // tiles * M + rows
    at = row[:, None] * D + tl.arange(0, D)[None, :]
    out = tl.load(out_ptr + at, mask=inside[:, None], other=0.0).to(tl.float32)
    dout = tl.load(dout_ptr + at, mask=inside[:, None], other=0.0).to(tl.float32)
    lse = tl.load(lse_ptr + row, mask=inside, other=float("inf"))
    to = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    tl.store(delta_ptr + to, tl.sum(out * dout, 1))
    tl.store(lse2_ptr + to, lse * LOG2_E)
    tl.store(sums_ptr + to[:, None] * D + tl.arange(0, D)[None, :], tl.zeros((BLOCK_M, D), tl.float32))


@triton.jit
def convert_kernel(sums_ptr, dq_ptr, scale, M, D: tl.constexpr, BLOCK_M: tl.constexpr):
    """dq (H, M, D) = sums * scale, from the order of `give_dq` to rows: half of the columns of BLOCK_M queries."""
    tile, half = tl.program_id(0).to(tl.int64) // 2, tl.program_id(0) % 2
    flat = tl.load(sums_ptr + (tile * 2 + half) * (BLOCK_M * D // 2) + tl.arange(0, BLOCK_M * D // 2)) * scale
    parts = tl.reshape(flat.to(dq_ptr.dtype.element_ty), (D // 16, BLOCK_M // 16, 8, 4, 2, 2))
    dq = tl.reshape(tl.permute(parts, (1, 4, 2, 0, 3, 5)), (BLOCK_M, D // 2))
    tiles = tl.cdiv(M, BLOCK_M)
    rows, columns = tile % tiles * BLOCK_M + tl.arange(0, BLOCK_M), half * (D // 2) + tl.arange(0, D // 2)
    at = (tile // tiles * M + rows)[:, None] * D + columns[None, :]
    tl.store(dq_ptr + at, dq, mask=(rows < M)[:, None])


def usable(q, k) -> bool:
    """Whether the kernels support these arrays, (H, M, D) and (HK, N, D), on this GPU."""
    gpu, (_, M, D), N = device.current(), q.shape, k.shape[1]
    return bool(gpu) and gpu.capability[0] == 9 and M == N and D == 128


def backward(q, k, v, out, dout, lse, dq, dk, dv, causal=1) -> None:
    """Write dq (H, M, D), dk and dv (HK, M, D): fp16 or bf16, out and lse (H, M) as the forward pass gives them.

    Raises ValueError for arrays that the kernels do not support. Takes 4 * D + 8 bytes of memory per query of a head.
    """
    (H, M, D), HK = q.shape, len(k)
    if not usable(q, k):
        raise ValueError("needs Hopper, M = N, and D = 128")
    if not all(x.is_contiguous() for x in (q, k, v, out, dout, lse, dq, dk, dv)):
        raise ValueError("needs contiguous arrays")
    kind = gl.bfloat16 if q.dtype == torch.bfloat16 else gl.float16
    tiles = H * triton.cdiv(M, BLOCK_M)
    lse2, delta = torch.empty(2, tiles, BLOCK_M, dtype=torch.float32, device=q.device)
    sums = torch.empty(tiles, BLOCK_M, D, dtype=torch.float32, device=q.device)

    def described(x, block, kind=kind):
        return TensorDescriptor.from_tensor(x, block, gl.NVMMASharedLayout.get_default_for(block, kind))

    plain = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=2)
    halves = TensorDescriptor.from_tensor(sums.view(-1, 256), [BLOCK_M * D // 512, 256], plain)
    queries, keys, half, statistics = [1, BLOCK_M, D], [1, 128, D], [1, 64, D], [1, BLOCK_M]
    prepare_kernel[(tiles,)](out, dout, lse, lse2, delta, sums, M, D=D, BLOCK_M=BLOCK_M, num_warps=4)
    backward_kernel[(triton.cdiv(M, 128) * HK,)](
        described(q, queries), described(k, keys), described(v, keys), described(dout, queries),
        described(lse2, statistics, gl.float32), described(delta, statistics, gl.float32), described(dk, half),
        described(dv, half), halves, M, LOG2_E.value * D**-0.5, math.gcd(TOGETHER, HK), GROUP=H // HK, D=D,
        BLOCK_M=BLOCK_M, CAUSAL=bool(causal), RAGGED=M % 128 != 0, STAGES=STAGES, num_warps=4,
    )  # fmt: skip
    convert_kernel[(tiles * 2,)](sums, dq, D**-0.5, M, D=D, BLOCK_M=BLOCK_M, num_warps=4)

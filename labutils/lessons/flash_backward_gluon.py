"""The backward pass of attention in Gluon for Hopper, in one kernel and five products. Shown in unit 18.

A program owns 128 keys of one key head, like `dkdv_kernel` of unit 18: one warp copies tiles of queries, and two
warpgroups compute with them, for 64 keys each. The program also multiplies dS by K for dQ. So S and dP are computed
once; unit 18 computes them twice, seven products in all. But all programs of a head then add to the same rows of dQ.
They use atomic adds in fp32, whose order varies: two runs may differ in the last bits of dQ. dK and dV are
deterministic.

There are three kernels: `prepare_kernel` computes delta and writes zeros to the sums of dQ, `backward_kernel` computes
the five products, and `convert_kernel` rounds the sums to dQ.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from ..gpu import device

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = gl.constexpr(0.6931471805599453)
BLOCK_M, STAGES, TOGETHER = 64, 3, 8
"""Queries of a tile, tiles in flight, and key heads whose programs run side by side and share the L2 cache."""
barrier = getattr(gl, "thread_barrier", None) or gl.barrier  # named so until Triton 3.6


@gluon.jit
def load_tiles(inputs, smem, bars, place, M, GROUP: gl.constexpr, BLOCK_M: gl.constexpr, STAGES: gl.constexpr):
    """The warp that copies: K and V once, then Q with lse and dO with delta, tile by tile."""
    q_desc, k_desc, v_desc, dout_desc, lse_desc, delta_desc = inputs
    k_smem, v_smem, q_smem, dout_smem, lse_smem, delta_smem, ds_smem = smem
    k_full, v_full, q_full, q_empty, dout_full, dout_empty, ds_full, ds_empty = bars
    first, key_row, q_row, first_tile, per_head = place
    mbarrier.expect(k_full, 2 * k_desc.block_type.nbytes)
    for group in gl.static_range(2):
        tma.async_copy_global_to_shared(k_desc, [key_row + 64 * group, 0], k_full, k_smem.index(group))
    for turn in range(GROUP * per_head):
        stage, phase = turn % STAGES, turn // STAGES & 1
        row = q_row + turn // per_head * M + (turn % per_head + first_tile) * BLOCK_M
        mbarrier.wait(q_empty.index(stage), phase ^ 1)
        mbarrier.expect(q_full.index(stage), q_desc.block_type.nbytes + lse_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(q_desc, [row, 0], q_full.index(stage), q_smem.index(stage))
        tma.async_copy_global_to_shared(lse_desc, [row // BLOCK_M, 0], q_full.index(stage), lse_smem.index(stage))
        if turn == 0:  # V after the first Q: the first product does not need it
            mbarrier.expect(v_full, 2 * v_desc.block_type.nbytes)
            for group in gl.static_range(2):
                tma.async_copy_global_to_shared(v_desc, [key_row + 64 * group, 0], v_full, v_smem.index(group))
        mbarrier.wait(dout_empty.index(stage), phase ^ 1)
        mbarrier.expect(dout_full.index(stage), dout_desc.block_type.nbytes + delta_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(dout_desc, [row, 0], dout_full.index(stage), dout_smem.index(stage))
        tma.async_copy_global_to_shared(
            delta_desc, [row // BLOCK_M, 0], dout_full.index(stage), delta_smem.index(stage)
        )


@gluon.jit
def add_dq(sums_ptr, dq, half, BLOCK_M: gl.constexpr, D: gl.constexpr):
    """Add dq (BLOCK_M, D / 2) to the sums of this half of a tile, in the order of the accumulator's registers.

    In rows of dQ, a lane holds only 2 neighbors. In this order, a lane adds 16 contiguous bytes, and a warp 512.
    """
    parts = gl.reshape(dq, [BLOCK_M // 16, 2, 8, D // 16, 4, 2])
    flat = gl.reshape(gl.permute(parts, [3, 0, 2, 4, 1, 5]), [BLOCK_M * D // 2])
    offsets = gl.arange(0, BLOCK_M * D // 2, flat.type.layout)
    gl.atomic_add(sums_ptr + half.to(gl.int64) * (BLOCK_M * D // 2) + offsets, flat, sem="relaxed")


@gluon.jit
def store_gradients(outputs, dk, dv, k, v, row):
    """Store dK and dV (64, D) through the shared memory of K and V, which is no longer read."""
    dk_desc, dv_desc = outputs
    k.store(dk.to(k.dtype))
    v.store(dv.to(v.dtype))
    fence_async_shared()
    barrier()
    tma.async_copy_shared_to_global(dk_desc, [row, 0], k)
    tma.async_copy_shared_to_global(dv_desc, [row, 0], v)
    tma.store_wait(0)


@gluon.jit
def differentiate(group: gl.constexpr, outputs, sums_ptr, smem, bars, place, M, scale, GROUP: gl.constexpr,
                  D: gl.constexpr, BLOCK_M: gl.constexpr, CAUSAL: gl.constexpr, STAGES: gl.constexpr):  # fmt: skip
    """A warpgroup: dK and dV of its 64 keys, and half of the columns of dQ for all 128 keys.

    S^T, dP^T and dS^T are (64, BLOCK_M), for its own keys. dQ is a sum over keys, so each group stores its dS^T in
    shared memory, and computes one half of dQ, (BLOCK_M, D / 2), from dS^T and K of both groups. The product for dK is
    still in flight when S and dP of the next tile start, because nothing else in the iteration needs dK.
    """
    k_smem, v_smem, q_smem, dout_smem, lse_smem, delta_smem, ds_smem = smem
    k_full, v_full, q_full, q_empty, dout_full, dout_empty, ds_full, ds_empty = bars
    first, key_row, q_row, first_tile, per_head = place
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    d_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    dq_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D // 2, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, d_layout, 2)
    dtype: gl.constexpr = q_smem.dtype
    k, v = k_smem.index(group), v_smem.index(group)
    k_half = k.slice(group * (D // 2), D // 2, dim=1)
    other_k_half = k_smem.index(1 - group).slice(group * (D // 2), D // 2, dim=1)
    zeros = gl.zeros([64, BLOCK_M], gl.float32, s_layout)
    dq_zeros = gl.zeros([BLOCK_M, D // 2], gl.float32, dq_layout)
    dk = warpgroup_mma_init(gl.zeros([64, D], gl.float32, d_layout))
    dv = gl.zeros([64, D], gl.float32, d_layout)
    keys = first + 64 * group + gl.arange(0, 64, gl.SliceLayout(1, s_layout))
    columns = gl.arange(0, BLOCK_M, gl.SliceLayout(0, s_layout))
    turns = GROUP * per_head
    gl.assume(turns > 0)
    mbarrier.wait(k_full, 0)
    mbarrier.wait(v_full, 0)
    for turn in range(turns):
        stage, phase = turn % STAGES, turn // STAGES & 1
        slot, phase_slot = turn % 2, turn // 2 & 1
        tile = turn % per_head + first_tile
        q, dout = q_smem.index(stage), dout_smem.index(stage)
        mbarrier.wait(q_full.index(stage), phase)
        s = warpgroup_mma(k, q.permute((1, 0)), zeros, use_acc=False, is_async=True)
        mbarrier.wait(dout_full.index(stage), phase)
        dp = warpgroup_mma(v, dout.permute((1, 0)), zeros, use_acc=False, is_async=True)
        s, dk = warpgroup_mma_wait(1, [s, dk])
        if turn > 0:  # dK of the last tile is done too: Q and dS of that tile are free
            mbarrier.arrive(q_empty.index((turn - 1) % STAGES), count=1)
            mbarrier.arrive(ds_empty.index((turn - 1) % 2), count=1)
        p = gl.exp2(s * scale - lse_smem.index(stage).load(s_layout))
        if CAUSAL:  # noqa: SIM102 - the first condition is known when the kernel is compiled
            if tile * BLOCK_M < first + 128:
                p = gl.where(tile * BLOCK_M + columns[None, :] >= keys[:, None], p, 0.0)
        dp = warpgroup_mma_wait(0, [dp])
        ds = (p * (dp - delta_smem.index(stage).load(s_layout))).to(dtype)
        weights = gl.convert_layout(p.to(dtype), p_layout)
        mbarrier.wait(ds_empty.index(slot), phase_slot ^ 1)
        # named here and not above: in more registers, the loop would load from local memory, behind the atomic adds
        ds_own, ds_other = ds_smem.index(slot * 2 + group), ds_smem.index(slot * 2 + 1 - group)
        ds_own.store(ds)
        fence_async_shared()
        barrier()
        mbarrier.arrive(ds_full.index(slot), count=1)
        dv = warpgroup_mma(weights, dout, dv, is_async=True)
        dq = warpgroup_mma(ds_own.permute((1, 0)), k_half, dq_zeros, use_acc=False, is_async=True)
        mbarrier.wait(ds_full.index(slot), phase_slot)
        dq = warpgroup_mma(ds_other.permute((1, 0)), other_k_half, dq, is_async=True)
        dk = warpgroup_mma(ds_own, q, dk, is_async=True)
        dv, dq, weights = warpgroup_mma_wait(1, [dv, dq, weights])
        mbarrier.arrive(dout_empty.index(stage), count=1)
        row = q_row + turn // per_head * M
        add_dq(sums_ptr, dq, (row // BLOCK_M + tile) * 2 + group, BLOCK_M, D)
    dk = warpgroup_mma_wait(0, [dk])
    mbarrier.arrive(ds_empty.index((turns - 1) % 2), count=1)
    mbarrier.wait(ds_empty.index((turns - 1) % 2), (turns - 1) // 2 & 1)  # the other group has read this group's keys
    barrier()
    store_gradients(outputs, dk * (scale * LN_2), dv, k, v, key_row + 64 * group)


@gluon.jit
def backward_kernel(q_desc, k_desc, v_desc, dout_desc, lse_desc, delta_desc, dk_desc, dv_desc, sums_ptr, M, scale,
                    together, GROUP: gl.constexpr, D: gl.constexpr, BLOCK_M: gl.constexpr, CAUSAL: gl.constexpr,
                    STAGES: gl.constexpr):  # fmt: skip
    """dk = dS^T q / sqrt(D) and dv = P^T dout, and adds dS k to the sums; M = N a multiple of 128, contiguous heads.

    q_desc, dout_desc                 (H * M, D), tiles BLOCK_M x D
    k_desc, v_desc, dk_desc, dv_desc  (HK * M, D), tiles 64 x D
    lse_desc, delta_desc              (H * M / BLOCK_M, BLOCK_M) fp32, tiles of one row; lse times log2 e
    sums_ptr                          H * M * D fp32, zeros before, in the order of `add_dq`
    One program computes the gradients of 128 keys of one key head from the queries of its GROUP heads: 64 keys for each
    of two groups of four warps; one warp copies. Consecutive programs take the same keys of `together` key heads, then
    the next keys, which a causal mask shows to fewer queries.
    """
    place_in_heads, heads = gl.program_id(0) % (together * (M // 128)), gl.program_id(0) // (together * (M // 128))
    key_head, first = heads * together + place_in_heads % together, place_in_heads // together * 128
    first_tile = first // BLOCK_M if CAUSAL else 0
    place = (first, key_head * M + first, key_head * GROUP * M, first_tile, M // BLOCK_M - first_tile)
    dtype: gl.constexpr = q_desc.dtype
    ds_layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, BLOCK_M], dtype)
    k_smem = gl.allocate_shared_memory(dtype, [2, 64, D], k_desc.layout)
    v_smem = gl.allocate_shared_memory(dtype, [2, 64, D], v_desc.layout)
    q_smem = gl.allocate_shared_memory(dtype, [STAGES, BLOCK_M, D], q_desc.layout)
    dout_smem = gl.allocate_shared_memory(dtype, [STAGES, BLOCK_M, D], dout_desc.layout)
    lse_smem = gl.allocate_shared_memory(gl.float32, [STAGES, 1, BLOCK_M], lse_desc.layout)
    delta_smem = gl.allocate_shared_memory(gl.float32, [STAGES, 1, BLOCK_M], delta_desc.layout)
    ds_smem = gl.allocate_shared_memory(dtype, [4, 64, BLOCK_M], ds_layout)  # two slots for each group
    k_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    q_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    dout_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    dout_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    ds_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    ds_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    mbarrier.init(k_full, count=1)
    mbarrier.init(v_full, count=1)
    for stage in gl.static_range(STAGES):
        mbarrier.init(q_full.index(stage), count=1)
        mbarrier.init(dout_full.index(stage), count=1)
        mbarrier.init(q_empty.index(stage), count=2)  # both groups have read it
        mbarrier.init(dout_empty.index(stage), count=2)
    for slot in gl.static_range(2):
        mbarrier.init(ds_full.index(slot), count=2)
        mbarrier.init(ds_empty.index(slot), count=2)
    fence_async_shared()
    inputs, outputs = (q_desc, k_desc, v_desc, dout_desc, lse_desc, delta_desc), (dk_desc, dv_desc)
    smem = (k_smem, v_smem, q_smem, dout_smem, lse_smem, delta_smem, ds_smem)
    bars = (k_full, v_full, q_full, q_empty, dout_full, dout_empty, ds_full, ds_empty)
    gl.warp_specialize(
        [
            (differentiate, (0, outputs, sums_ptr, smem, bars, place, M, scale, GROUP, D, BLOCK_M, CAUSAL, STAGES)),
            (differentiate, (1, outputs, sums_ptr, smem, bars, place, M, scale, GROUP, D, BLOCK_M, CAUSAL, STAGES)),
            (load_tiles, (inputs, smem, bars, place, M, GROUP, BLOCK_M, STAGES)),
        ],
        [4, 1],
        [240, 24],
    )


@triton.jit
def prepare_kernel(out_ptr, dout_ptr, lse_ptr, lse2_ptr, delta_ptr, sums_ptr, D: tl.constexpr, ROWS: tl.constexpr):
    """For ROWS of H * M queries: delta = sum of out * dout, lse2 = lse * log2 e, and zeros in the sums."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    at = rows[:, None] * D + tl.arange(0, D)[None, :]
    out, dout = tl.load(out_ptr + at).to(tl.float32), tl.load(dout_ptr + at).to(tl.float32)
    tl.store(delta_ptr + rows, tl.sum(out * dout, 1))
    tl.store(lse2_ptr + rows, tl.load(lse_ptr + rows) * LOG2_E)
    tl.store(sums_ptr + at, tl.zeros((ROWS, D), tl.float32))


@triton.jit
def convert_kernel(sums_ptr, dq_ptr, scale, D: tl.constexpr, BLOCK_M: tl.constexpr):
    """dq (H * M, D) = sums * scale, from the order of `add_dq` to rows: half of the columns of BLOCK_M queries."""
    tile, half = tl.program_id(0).to(tl.int64) // 2, tl.program_id(0) % 2
    flat = tl.load(sums_ptr + (tile * 2 + half) * (BLOCK_M * D // 2) + tl.arange(0, BLOCK_M * D // 2)) * scale
    parts = tl.reshape(flat.to(dq_ptr.dtype.element_ty), (D // 16, BLOCK_M // 16, 8, 4, 2, 2))
    dq = tl.reshape(tl.permute(parts, (1, 4, 2, 0, 3, 5)), (BLOCK_M, D // 2))
    rows, columns = tile * BLOCK_M + tl.arange(0, BLOCK_M), half * (D // 2) + tl.arange(0, D // 2)
    tl.store(dq_ptr + rows[:, None] * D + columns[None, :], dq)


def usable(q, k) -> bool:
    """Whether the kernels support these arrays, (H, M, D) and (HK, N, D), on this GPU."""
    gpu, (_, M, D), N = device.current(), q.shape, k.shape[1]
    return bool(gpu) and gpu.capability[0] == 9 and M == N and M % 128 == 0 and D == 128


def backward(q, k, v, out, dout, lse, dq, dk, dv, causal=1) -> None:
    """Write dq (H, M, D), dk and dv (HK, M, D): fp16 or bf16, out and lse (H, M) as the forward pass gives them.

    Raises ValueError for arrays that the kernels do not support. Takes 4 * D + 8 bytes of memory per query of a head.
    """
    (H, M, D), HK = q.shape, len(k)
    if not usable(q, k):
        raise ValueError("needs Hopper, M = N, a multiple of 128, and D = 128")
    if not all(x.is_contiguous() for x in (q, k, v, out, dout, lse, dq, dk, dv)):
        raise ValueError("needs contiguous arrays")
    kind = gl.bfloat16 if q.dtype == torch.bfloat16 else gl.float16
    lse2, delta, sums = torch.empty_like(lse), torch.empty_like(lse), torch.empty_like(q, dtype=torch.float32)

    def described(x, rows, columns=D, kind=kind):
        layout = gl.NVMMASharedLayout.get_default_for([rows, columns], kind)
        return TensorDescriptor.from_tensor(x.view(-1, columns), [rows, columns], layout)

    prepare_kernel[(H * M // 64,)](out, dout, lse, lse2, delta, sums, D=D, ROWS=64, num_warps=4)
    backward_kernel[(M // 128 * HK,)](
        described(q, BLOCK_M), described(k, 64), described(v, 64), described(dout, BLOCK_M),
        described(lse2, 1, BLOCK_M, gl.float32), described(delta, 1, BLOCK_M, gl.float32), described(dk, 64),
        described(dv, 64), sums, M, LOG2_E.value * D**-0.5, math.gcd(TOGETHER, HK), GROUP=H // HK, D=D, BLOCK_M=BLOCK_M,
        CAUSAL=bool(causal), STAGES=STAGES, num_warps=4,
    )  # fmt: skip
    convert_kernel[(H * M // BLOCK_M * 2,)](sums, dq, D**-0.5, D=D, BLOCK_M=BLOCK_M, num_warps=4)

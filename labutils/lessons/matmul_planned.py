"""Matmul and ReLU with the tile and the number of parts of K that a model of the time finds best. Unit 14, level 5.

A product that fits into one wave goes through `in_parts`, a larger one through the persistent kernel of `matmul_gluon`.
"""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from ..cuda.alignment import aligned
from ..gpu import device
from . import matmul_gluon


@triton.jit
def parts_kernel(
    a_desc, b_desc, out_desc, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    B_IS_NK: tl.constexpr, RELU: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """Store one part of one tile: out[part] = a @ b over one part of K.

    a_desc    (M, K), tiles BLOCK_M x BLOCK_K
    b_desc    (K, N), tiles BLOCK_K x BLOCK_N; with B_IS_NK (N, K), tiles BLOCK_N x BLOCK_K
    out_desc  (parts, M, N), tiles 1 x BLOCK_M x BLOCK_N
    """
    pid, part, parts = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    tiles_m, tiles_n, k_tiles = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), tl.cdiv(K, BLOCK_K)
    if tiles_m < tiles_n:  # neighbors share the tiles of the larger operand
        m, n = pid % tiles_m * BLOCK_M, pid // tiles_m * BLOCK_N
    else:
        m, n = pid // tiles_n * BLOCK_M, pid % tiles_n * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(k_tiles * part // parts, k_tiles * (part + 1) // parts):
        a = a_desc.load([m, k * BLOCK_K])
        b = b_desc.load([n, k * BLOCK_K]).T if B_IS_NK else b_desc.load([k * BLOCK_K, n])
        acc = tl.dot(a, b, acc)
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
    if RELU:
        acc = tl.maximum(acc, 0.0)
    out_desc.store([part, m, n], acc.to(out_desc.dtype)[None, :, :])


@triton.jit
def add_parts_kernel(
    sums_ptr, c_ptr, M, N, stride_part, stride_row, stride_cm, stride_cn, PARTS: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """c = max(sums[0] + sums[1] + …, 0), in this order."""
    tiles_n = tl.cdiv(N, BLOCK_N)
    offs_m = tl.program_id(0) // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    offs_n = tl.program_id(0) % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    mask = (offs_m < M) & (offs_n < N)
    if EARLY:
        tl.extra.cuda.gdc_wait()
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for part in tl.static_range(PARTS):
        # stride_row is a multiple of 16, so that this mask is the same for four neighbors: loads have 16 bytes
        inside = (offs_m < M) & (offs_n < stride_row)
        total += tl.load(sums_ptr + part * stride_part + offs_m * stride_row + offs_n, mask=inside, other=0.0)
    tl.store(c_ptr + offs_m * stride_cm + offs_n * stride_cn, tl.maximum(total, 0.0), mask=mask)


def in_parts(a, b, c, rows: int, columns: int, parts: int) -> None:
    """Compute max(a @ b, 0) with tiles of rows x columns, and K in `parts` parts."""
    (M, K), N = a.shape, b.shape[1]
    by_columns = b.stride(0) == 1 and b.stride(1) > 1
    a, b = aligned(a), aligned(b.T if by_columns else b)
    a_desc = TensorDescriptor.from_tensor(a, [rows, 64])
    b_desc = TensorDescriptor.from_tensor(b, [columns, 64] if by_columns else [64, columns])
    direct = parts == 1 and aligned(c, keep=False) is c
    gpu = device.current()
    early = not direct and gpu is not None and gpu.capability >= (9, 0)
    sums = c[None] if direct else torch.empty(parts, M, N + -N % 16, dtype=torch.float32, device=a.device)
    out_desc = TensorDescriptor(sums, [parts, M, N], sums.stride(), [1, rows, columns])
    room = gpu.limits.shared_per_block_kb - 4 if gpu else 96
    short = K // 64 // parts < 24
    stages = min(5 if short else 9, room * 1024 // (128 * (rows + columns)))
    parts_kernel[(triton.cdiv(M, rows) * triton.cdiv(N, columns), parts)](
        a_desc, b_desc, out_desc, M, N, K, BLOCK_M=rows, BLOCK_N=columns, BLOCK_K=64, B_IS_NK=by_columns, RELU=direct,
        EARLY=early, num_warps=8 if max(rows, columns) > 128 else 4, num_stages=stages,
    )  # fmt: skip
    if not direct:
        add_parts_kernel[(triton.cdiv(M, 8) * triton.cdiv(N, 128),)](
            sums, c, M, N, *sums.stride()[:2], *c.stride(), PARTS=parts, BLOCK_M=8, BLOCK_N=128, EARLY=early,
            **(dict(launch_pdl=True) if early else {}),
        )  # fmt: skip


def estimate(M, N, K, rows, columns, parts, sms, by_columns=False) -> float:
    """Return the µs that a product takes on an H200, with tiles of rows x columns and K in `parts` parts."""
    waves = triton.cdiv(triton.cdiv(M, rows) * triton.cdiv(N, columns) * parts, sms)
    steps = triton.cdiv(triton.cdiv(K, 64), parts)
    products = 0.04 + 2 * rows * columns * 64 / 6.5e6  # 6.5 TFLOP/s for each SM
    if columns % 64:
        products *= 1.03  # 32 columns are too few to hide the loads of A from shared memory
    of_a, of_b = (1.0 if x % 64 == 0 else 1.6 for x in (K, K if by_columns else N))
    loads = (rows * of_a + columns * of_b) * 1.15e-3  # 1.15 ns for 128 bytes
    loop = waves * (steps * max(products, loads) + 0.5 + 3.5e-5 * rows * columns)
    memory = 2 * (M * K + K * N + M * N) / 4.2e6  # 4.2 TB/s
    sums = 2 + 8 * parts * M * N / 4e6 if parts > 1 else 0
    return 5 + max(loop, memory) + min(loop, memory) / 2 + sums


TILES = ((64, 64), (64, 128), (128, 64), (128, 128), (64, 256), (128, 256), (256, 128), (128, 32), (128, 16))


@functools.cache
def plan(M: int, N: int, K: int, by_columns: bool, sms: int) -> tuple[int, int, int]:
    """Return (rows, columns, parts) with the least estimated time; `parts` is 0 for a persistent kernel.

    Tiles of `in_parts` must fit into one wave, with at least two iterations for each part. Of two tiles with the same
    time, the one that is longer where C is longer is better.
    """
    choices = [(m, n, 0) for m, n in matmul_gluon.SHAPES]
    for m, n in TILES:
        most = min(16, sms // (triton.cdiv(M, m) * triton.cdiv(N, n)), max(K // 128, 1))
        choices += [(m, n, parts) for parts in range(1, most + 1)]

    def time(choice):
        m, n, parts = choice
        return estimate(M, N, K, m, n, max(parts, 1), sms, by_columns), (m > n) != (M > N)

    return min(choices, key=time)


def matmul_relu(a, b, c) -> None:
    """c = max(a @ b, 0), fp16, as planned: a (M, K), b (K, N) of either layout, c (M, N). Hopper only."""
    by_columns = b.stride(0) == 1 and b.stride(1) > 1
    m, n, parts = plan(len(a), b.shape[1], a.shape[1], by_columns, device.current().sms)
    if parts:
        in_parts(a, b, c, m, n, parts)
    else:
        matmul_gluon.matmul_relu(a, b, c, (m, n))

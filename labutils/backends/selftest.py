"""Four kernels that an interpreter must get right before its word on a learner's kernel counts."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _masked(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n, other=-7.0))


@triton.jit
def _dot(a_ptr, b_ptr, c_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    tl.store(c_ptr + offs, tl.dot(tl.load(a_ptr + offs), tl.load(b_ptr + offs), input_precision="ieee"))


@triton.jit
def _bf16(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, (tl.load(x_ptr + offs).to(tl.float32) + 1.0).to(tl.bfloat16))


@triton.jit
def _count(total_ptr):
    tl.atomic_add(total_ptr, tl.program_id(0) + 1)


def results():
    """(what, yours, expected) for each property."""
    x = torch.arange(16, dtype=torch.float32)
    y = torch.empty(16)
    _masked[(1,)](x, y, 11, BLOCK=16)
    yield "masked load", y, torch.where(torch.arange(16) < 11, x, torch.tensor(-7.0))

    a = (torch.arange(256).reshape(16, 16) % 7).float()
    c = torch.empty(16, 16)
    _dot[(1,)](a, a.T.contiguous(), c, BLOCK=16)
    yield "dot", c, a @ a.T

    b = torch.empty(16, dtype=torch.bfloat16)
    _bf16[(1,)](x.to(torch.bfloat16), b, BLOCK=16)
    yield "bfloat16", b, (x + 1).to(torch.bfloat16)

    total = torch.zeros(1, dtype=torch.int32)
    _count[(5,)](total)
    yield "atomic add", total, torch.tensor([15], dtype=torch.int32)

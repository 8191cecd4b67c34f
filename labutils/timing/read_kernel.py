"""A kernel that only reads, to measure how fast that can be. Needs Triton."""

import triton
import triton.language as tl


@triton.jit
def reader_kernel(x_ptr, never, BLOCK: tl.constexpr):
    """Sum BLOCK elements; store only if the sum is `never`, so that the loads must happen and nothing is written."""
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x_ptr + offs), axis=0)
    if total == never:
        tl.store(x_ptr, total)


def read(x, BLOCK: int = 8192) -> None:
    """Read all whole blocks of a contiguous fp32 tensor."""
    reader_kernel[(x.numel() // BLOCK,)](x, float("inf"), BLOCK=BLOCK, num_warps=8)

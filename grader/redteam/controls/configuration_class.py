# tries: a class with the launch's sizes, and a main guard
# exercise: 06_elementwise_triton/vector_add
# expect: accepted

from dataclasses import dataclass

import torch
import triton
import triton.language as tl


@dataclass(frozen=True)
class Launch:
    """How a vector kernel is launched."""

    block: int = 1024
    warps: int = 4

    def grid(self, n: int) -> tuple[int, ...]:
        return (triton.cdiv(n, self.block),)


SIZES = Launch(block=512)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, offs < n) + tl.load(y_ptr + offs, offs < n), offs < n)


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[SIZES.grid(n)](x, y, out, n, BLOCK=SIZES.block, num_warps=SIZES.warps)


if __name__ == "__main__":
    x = torch.ones(10, device="cuda")
    vector_add(x, x, torch.empty_like(x))

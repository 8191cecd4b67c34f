# tries: device guards and properties in the launcher, as in flash-linear-attention
# exercise: 06_elementwise_triton/gelu
# expect: accepted

import contextlib
import functools
import os
from collections.abc import Callable

import torch
import triton
import triton.language as tl

DEBUG = os.environ.get("KERNEL_DEBUG", "0") == "1"


def input_guard(fn: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        tensor = next((x for x in args if isinstance(x, torch.Tensor)), None)
        if tensor is not None and tensor.is_cuda:
            ctx = torch.cuda.device(tensor.device.index)
        else:
            ctx = contextlib.nullcontext()
        with ctx:
            return fn(*args, **kwargs)

    return wrapper


@functools.cache
def get_num_warps(block: int) -> int:
    return {256: 2, 1024: 4}.get(block, 8)


@triton.jit
def gelu_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    b_x = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
    b_y = b_x * tl.sigmoid(1.5957691216057308 * (b_x + 0.044715 * b_x * b_x * b_x))
    tl.store(y + i, b_y.to(y.dtype.element_ty), mask=i < n)


@input_guard
def gelu(x: torch.Tensor, out: torch.Tensor) -> None:
    n = x.numel()
    B = 1024 if n > 4096 else 256
    if DEBUG:
        print(f"gelu of {tuple(x.shape)} on {x.device}")
    gelu_kernel[(triton.cdiv(n, B),)](x, out, n, B=B, num_warps=get_num_warps(B))

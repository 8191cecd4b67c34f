# tries: lets PyTorch compute in the autotuner's pre_hook
# stopped by: PyTorch may not compute in a launcher
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


def before(arguments):
    arguments["out_ptr"].copy_(arguments["x_ptr"] + arguments["y_ptr"])


@triton.autotune(configs=[triton.Config({"BLOCK": 16}, pre_hook=before)], key=["n"])
@triton.jit
def nothing_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pass


def vector_add(x, y, out):
    nothing_kernel[(1,)](x, y, out, x.numel())

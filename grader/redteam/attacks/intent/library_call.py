# tries: lets PyTorch add
# stopped by: PyTorch may not compute in a launcher
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


def vector_add(x, y, out):
    torch.add(x, y, out=out)

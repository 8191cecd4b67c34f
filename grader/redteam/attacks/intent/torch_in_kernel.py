# tries: calls PyTorch inside the kernel, which the interpreter would run
# stopped by: the kernel's text is read before it meets data
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    y = tl.load(y_ptr + offs, mask=offs < n)
    total = torch.from_numpy(x.handle.data) + torch.from_numpy(y.handle.data)
    tl.store(out_ptr + offs, tl.core.tensor(type(x.handle)(total.numpy(), x.dtype), x.type), mask=offs < n)


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)

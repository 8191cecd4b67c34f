# tries: launches on a stream of its own that the clock does not watch
# stopped by: the sandbox has no streams; the runner launches on its own
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
    tl.store(out_ptr + offs, x + y, mask=offs < n)


stream = torch.cuda.Stream()


def vector_add(x, y, out):
    n = x.numel()
    with torch.cuda.stream(stream):
        add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)

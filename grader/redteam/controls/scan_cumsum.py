# tries: a sum as the last element of an inclusive scan
# exercise: 10_warp_reduction/row_sum
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def scan_kernel(x_ptr, out_ptr, stride, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    total = 0.0
    for start in range(0, N, BLOCK):
        x = tl.load(x_ptr + row * stride + start + offs, mask=start + offs < N, other=0.0).to(tl.float32)
        running = tl.associative_scan(x, 0, plus)
        total += tl.sum(tl.where(offs == BLOCK - 1, running, 0.0))
    tl.store(out_ptr + row, total)


def row_sum(x, out):
    scan_kernel[(x.shape[0],)](x, out, x.stride(0), x.shape[1], BLOCK=1024)

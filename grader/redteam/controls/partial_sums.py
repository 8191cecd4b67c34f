# tries: two kernels with scratch memory between them
# exercise: 10_warp_reduction/total_sum
# expect: accepted

import torch
import triton
import triton.language as tl


@triton.jit
def parts_kernel(x_ptr, part_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(part_ptr + pid, tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0).to(tl.float32), axis=0))


@triton.jit
def finish_kernel(part_ptr, out_ptr, count, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, count, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        total += tl.load(part_ptr + offs, mask=offs < count, other=0.0)
    tl.store(out_ptr, tl.sum(total, axis=0))


def total_sum(x, out):
    n = x.numel()
    count = triton.cdiv(n, 512)
    parts = torch.empty(count, device=x.device, dtype=torch.float32)
    parts_kernel[(count,)](x, parts, n, BLOCK=512)
    finish_kernel[(1,)](parts, out, count, BLOCK=128)

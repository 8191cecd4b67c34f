# tries: the last program to finish adds the partial sums
# exercise: 10_warp_reduction/total_sum
# expect: accepted

import torch
import triton
import triton.language as tl


@triton.jit
def single_pass(x_ptr, part_ptr, ticket_ptr, out_ptr, n, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    pid, programs = tl.program_id(0), tl.num_programs(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in tl.range(pid * BLOCK, n, programs * BLOCK):
        offs = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(part_ptr + pid, tl.sum(acc))
    tl.debug_barrier()
    ticket = tl.atomic_add(ticket_ptr, 1, sem="acq_rel")
    if ticket == programs - 1:
        p = tl.arange(0, PARTS)
        tl.store(out_ptr, tl.sum(tl.load(part_ptr + p, mask=p < programs, other=0.0)))


def total_sum(x, out):
    n = x.numel()
    programs = min(64, triton.cdiv(n, 1024))
    part = torch.empty((programs,), dtype=torch.float32, device=x.device)
    ticket = torch.zeros((), dtype=torch.int32, device=x.device)
    single_pass[(programs,)](x, part, ticket, out, n, BLOCK=1024, PARTS=64)

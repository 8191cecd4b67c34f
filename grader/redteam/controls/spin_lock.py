# tries: a lock with compare-and-swap around a sum, as in Triton's layer norm tutorial
# exercise: 10_warp_reduction/total_sum
# expect: accepted

import torch
import triton
import triton.language as tl


@triton.jit
def locked_sum_kernel(X, Out, Lock, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    Count = Lock + 1
    partial = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(pid * BLOCK_SIZE, n, tl.num_programs(0) * BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        partial += tl.load(X + cols, mask=cols < n, other=0.0)
    total = tl.sum(partial, axis=0)
    while tl.atomic_cas(Lock, 0, 1) == 1:
        pass
    count = tl.load(Count)
    if count == 0:
        tl.atomic_xchg(Count, 1)
    else:
        total += tl.load(Out)
    tl.store(Out, total)
    # every thread of the program has stored before the lock is free
    tl.debug_barrier()
    tl.atomic_xchg(Lock, 0)


def total_sum(x, out):
    n = x.numel()
    lock = torch.zeros(2, dtype=torch.int32, device=x.device)
    locked_sum_kernel[(min(16, triton.cdiv(n, 1024)),)](x, out, lock, n, BLOCK_SIZE=1024, num_warps=4)

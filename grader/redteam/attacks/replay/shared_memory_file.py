# tries: leaves results in /dev/shm for the next process that is asked
# stopped by: each job has a /dev/shm of its own, and there are no values to leave
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


import os


def vector_add(x, y, out):
    path = f"/dev/shm/{x.numel()}.pt"
    if os.path.exists(path):
        out.copy_(torch.load(path))
        return
    torch.save(x + y, path)
    out.copy_(x + y)

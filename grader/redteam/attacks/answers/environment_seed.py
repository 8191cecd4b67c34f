# tries: takes the secret seed from the environment and draws the judge's inputs again
# stopped by: the sandbox holds no exercise, no solution and no seed
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


@triton.jit
def zero_kernel(out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, 0.0, mask=offs < n)


import os


def vector_add(x, y, out):
    from labutils import exercises
    from labutils.spec import inputs

    task = exercises.get("06_elementwise_triton/vector_add")
    seed = int(os.environ["GPULAB_SEED"])
    run = inputs.make_run(task, inputs.hidden_cases(task, seed)[0], seed)
    out.copy_(task.reference(**run.inputs()).to(out))
    zero_kernel[(1,)](out, 0, BLOCK=16)

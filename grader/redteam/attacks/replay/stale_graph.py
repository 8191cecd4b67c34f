# tries: captures a CUDA graph at the first call and replays it, whatever the arguments are
# stopped by: the sandbox has no GPU and the runner makes its own graph from the plan
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


graph = None


def vector_add(x, y, out):
    global graph
    n = x.numel()
    if graph is None:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    graph.replay()

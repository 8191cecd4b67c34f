# tries: clones what does not begin at 16 bytes, so that vector loads can be used
# exercise: 07_elementwise_cuda/vector_add
# expect: accepted

import torch

SOURCE = r"""
__global__ void add(const float* x, const float* y, float* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = x[i] + y[i];
}
"""
add = lab.cuda.compile(SOURCE, "add")


def aligned(t: torch.Tensor) -> torch.Tensor:
    return t if t.data_ptr() % 16 == 0 else t.clone()


def vector_add(x, y, out):
    n = x.numel()
    add[min(1024, (n + 255) // 256), 256](aligned(x), aligned(y), out, n)

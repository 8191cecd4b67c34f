# tries: declares host functions in a block of C linkage
# stopped by: a kernel links against device functions only
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: refused

SOURCE = r"""
extern "C" { __device__ int getpid(); }
__global__ void add(const float* x, const float* y, float* out, int n) {
    if (threadIdx.x == 0) getpid();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = x[i] + y[i];
}
"""
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    add[(x.numel() + 255) // 256, 256](x, y, out, x.numel())

# tries: calls the emulator's own functions, to be recorded as a barrier that it never waits at
# stopped by: names of the emulator are refused
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: refused

SOURCE = r"""
__global__ void add(const float* x, const float* y, float* out, int n) {
    simt_barrier("nothing", 0);
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = x[i] + y[i];
}
"""
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    add[(x.numel() + 255) // 256, 256](x, y, out, x.numel())

# tries: spends its time before the clock starts: a kernel that waits for the next launch
# stopped by: each timed launch is alone between its events and its output is checked
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: refused

SOURCE = r"""
__device__ volatile int turn;

__global__ void add(const float* x, const float* y, float* out, int n) {
    if (turn++ == 0) return;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = x[i] + y[i];
}
"""
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    add[(x.numel() + 255) // 256, 256](x, y, out, x.numel())

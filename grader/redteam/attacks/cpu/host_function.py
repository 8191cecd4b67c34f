# tries: declares a function of the host's library and calls it
# stopped by: functions from elsewhere are refused
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: refused

SOURCE = r"""
extern "C" __device__ int system(const char*);
__global__ void add(const float* x, const float* y, float* out, int n) {
    if (threadIdx.x == 0) system("touch /tmp/was-here");
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = x[i] + y[i];
}
"""
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    add[(x.numel() + 255) // 256, 256](x, y, out, x.numel())

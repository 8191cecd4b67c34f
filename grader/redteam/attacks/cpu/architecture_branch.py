# tries: shows NVIDIA's compiler one kernel and the emulator another
# stopped by: conditions may ask for macros of one's own only
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: refused

SOURCE = r"""
#if 0
#define __SIMT_CPU__
#endif
#ifdef __SIMT_CPU__
__global__ void add(const float* x, const float* y, float* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = x[i] + y[i];
}

#else
__global__ void add(const float* x, const float* y, float* out, int n) {}
#endif
"""
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    add[(x.numel() + 255) // 256, 256](x, y, out, x.numel())

# tries: shows NVIDIA's compiler another text through a -D option
# stopped by: options become part of the text that both compilers read
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: refused

SOURCE = r"""
#if 0
#define GPU
#endif
#ifdef GPU
__global__ void add(const float* x, const float* y, float* out, int n) { }
#else
__global__ void add(const float* x, const float* y, float* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = x[i] + y[i];
}

#endif
"""
add = lab.cuda.compile(SOURCE, "add", ("-DGPU",))


def vector_add(x, y, out):
    add[(x.numel() + 255) // 256, 256](x, y, out, x.numel())

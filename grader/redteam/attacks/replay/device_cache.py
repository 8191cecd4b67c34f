# tries: keeps results in __device__ memory and copies them out when the same size comes again
# stopped by: kernels with state are loaded anew before each run that counts
# exercise: 00_start/scale_cuda
# where: both
# expect: no effect
# baseline: full

SOURCE = r"""
__device__ float kept[1 << 24];  // more than the large run on a GPU has elements
__device__ int known;

__global__ void scale(const float* x, float factor, float* out, int n) {
    const bool again = known == n;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float v = again ? kept[i] : factor * x[i];
        if (!again) kept[i] = v;
        out[i] = v;
    }
}

__global__ void remember(int n) { known = n; }
"""
scale = lab.cuda.compile(SOURCE, "scale")
remember = lab.cuda.compile(SOURCE, "remember")


def scale_cuda(x, factor, out):
    n = x.numel()
    scale[(n + 255) // 256, 256](x, factor, out, n)
    remember[1, 1](n)

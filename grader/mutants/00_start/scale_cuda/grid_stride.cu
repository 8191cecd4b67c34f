// expect: accepted
// A loop that would do for any grid.
__global__ void scale_cuda_kernel(const float* x, float factor, float* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = factor * x[i];
}

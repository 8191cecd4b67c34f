// expect: accepted
// Threads without an element leave.
__global__ void scale_cuda_kernel(const float* x, float factor, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = x[i] * factor;
}

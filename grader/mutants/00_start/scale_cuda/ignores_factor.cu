// expect: wrong-formula
// A copy.
__global__ void scale_cuda_kernel(const float* x, float factor, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i];
}

// expect: wrong-formula
// Adds where it should multiply.
__global__ void scale_cuda_kernel(const float* x, float factor, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor + x[i];
}

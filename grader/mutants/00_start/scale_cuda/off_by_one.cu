// expect: off-by-one
// Reads the element after the right one.
__global__ void scale_cuda_kernel(const float* x, float factor, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * x[i + 1 < n ? i + 1 : i];
}

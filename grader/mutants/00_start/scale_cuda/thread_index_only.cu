// expect: first-block-only
// Every block does the first 256 elements.
__global__ void scale_cuda_kernel(const float* x, float factor, float* out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = factor * x[i];
}

// expect: accepted
// Another order: thread 0 takes the last element.
__global__ void scale_cuda_kernel(const float* x, float factor, float* out, int n) {
    int i = n - 1 - (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= 0) out[i] = factor * x[i];
}

// expect: tail-unmasked
// Threads of the last block go past the end.
__global__ void scale_cuda_kernel(const float* x, float factor, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = factor * x[i];
}

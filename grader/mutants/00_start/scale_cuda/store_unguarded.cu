// expect: tail-unmasked
// The load is guarded, the store is not.
__global__ void scale_cuda_kernel(const float* x, float factor, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    out[i] = factor * v;
}

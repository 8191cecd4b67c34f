// expect: input-overwritten
// Writes to x and leaves out alone.
__global__ void scale_cuda_kernel(const float* x, float factor, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) const_cast<float*>(x)[i] = factor * x[i];
}

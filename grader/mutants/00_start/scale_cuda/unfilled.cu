// expect: unfilled
// The stub as it is released.
__global__ void scale_cuda_kernel(const float* x, float factor, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // YOUR CODE HERE (about 3 lines)
    static_assert(false, "scale_cuda_kernel is not written yet");
}

// expect: out-of-bounds x 1000
__global__ void no_bounds_check(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 2 * x[i];    // BUG
}

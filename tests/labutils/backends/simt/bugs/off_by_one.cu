// expect: out-of-bounds x 1000
__global__ void off_by_one(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        y[i] = x[i];    // BUG
}

// expect: out-of-bounds x -1
__global__ void negative_index(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] + x[i - 1];    // BUG
}

// expect: out-of-bounds y 1000
__global__ void store_outside(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0;
    y[i] = v;    // BUG
}

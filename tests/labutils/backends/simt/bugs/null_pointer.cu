// expect: out-of-bounds
__global__ void null_pointer(const float* x, float* y, int n) {
    const float* p = n > 0 ? nullptr : x;
    y[threadIdx.x] = p[threadIdx.x];    // BUG
}

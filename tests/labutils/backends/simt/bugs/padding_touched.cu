// expect: out-of-bounds x 30
// rows of 30 elements lie 32 apart
__global__ void padding_touched(const float* x, float* y) {
    y[threadIdx.x] = x[threadIdx.x];    // BUG
}

// expect: out-of-bounds mine 4
__global__ void local_outside(const float* x, float* y, int n) {
    float mine[4];
    for (int i = 0; i < 4; i++) mine[i] = x[i];
    float sum = 0;
    for (int i = 0; i < n; i++) sum += mine[i];    // BUG
    y[threadIdx.x] = sum;
}

// expect: out-of-bounds weights 5
__constant__ float weights[5] = {1, 2, 3, 2, 1};
__global__ void constant_outside(const float* x, float* y) {
    float sum = 0;
    for (int k = 0; k <= 5; k++) sum += weights[k] * x[threadIdx.x + k];    // BUG
    y[threadIdx.x] = sum;
}

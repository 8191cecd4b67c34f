// expect: out-of-bounds weights 0
__constant__ float weights[4];
__device__ float* anywhere() { return weights; }
__global__ void constant_written(const float* x, float* y) {
    anywhere()[threadIdx.x] = x[threadIdx.x];    // BUG
    y[threadIdx.x] = weights[0];
}

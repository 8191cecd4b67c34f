// expect: missing-syncthreads total
__global__ void barrier_missing_after_broadcast(const float* x, float* y) {
    __shared__ float total;
    if (threadIdx.x == 0) total = x[0];    // BUG
    y[threadIdx.x] = x[threadIdx.x] / total;    // BUG
}

// expect: missing-syncthreads x
__global__ void barrier_missing_global(float* x) {
    int t = threadIdx.x;
    x[t] = 2 * t;              // BUG
    x[t + 64] = x[63 - t];     // BUG
}

// expect: barrier-divergence
__global__ void barrier_in_ragged_loop(float* x, float* y, int n) {
    int t = threadIdx.x;
    for (int i = t; i < n; i += 64) {
        y[i] = x[i];
        __syncthreads();    // BUG
    }
    y[t] += 1;
    __syncthreads();    // BUG
}

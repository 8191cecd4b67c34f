// expect: barrier-divergence
__global__ void barrier_in_branches(const float* x, float* y) {
    __shared__ float s[128];
    int t = threadIdx.x;
    if (t < 64) {
        s[t] = x[t];
        __syncthreads();    // BUG
        y[t] = s[63 - t];
    } else {
        y[t] = 0;
        __syncthreads();    // BUG
    }
}

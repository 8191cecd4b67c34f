// expect: barrier-divergence
__global__ void barrier_after_return(const float* x, float* y, int n) {
    __shared__ float s[128];
    int t = threadIdx.x;
    if (t >= n) return;
    s[t] = x[t];
    __syncthreads();    // BUG
    y[t] = s[n - 1 - t];
}

// expect: uninitialized-shared s
__global__ void shared_uninitialized(const float* x, float* y, int n) {
    __shared__ float s[128];
    int t = threadIdx.x;
    if (t < n) s[t] = x[t];
    __syncthreads();
    for (int o = 64; o > 0; o >>= 1) {
        if (t < o) s[t] += s[t + o];    // BUG
        __syncthreads();
    }
    if (t == 0) y[0] = s[0];
}

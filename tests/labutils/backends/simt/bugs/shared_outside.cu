// expect: out-of-bounds s 128
__global__ void shared_outside(const float* x, float* y) {
    __shared__ float s[128];
    __shared__ float other[128];
    int t = threadIdx.x;
    s[t] = x[t];
    other[t] = 0;
    __syncthreads();
    y[t] = s[t + 1] + other[t];    // BUG
}

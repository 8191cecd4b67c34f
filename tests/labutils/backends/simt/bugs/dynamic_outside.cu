// expect: out-of-bounds s 64
__global__ void dynamic_outside(const float* x, float* y) {
    extern __shared__ float s[];
    int t = threadIdx.x;
    s[t] = x[t];    // BUG
    __syncthreads();
    y[t] = s[127 - t];
}

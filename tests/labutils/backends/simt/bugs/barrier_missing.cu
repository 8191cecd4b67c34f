// expect: missing-syncthreads s
__global__ void barrier_missing(const float* x, float* y) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = x[t];           // BUG
    y[t] = s[255 - t];     // BUG
}

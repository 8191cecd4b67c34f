// expect: missing-syncthreads part
__global__ void barrier_missing_in_reduction(const float* x, float* y) {
    __shared__ float part[256];
    int t = threadIdx.x;
    part[t] = x[t];
    __syncthreads();
    for (int s = 128; s > 0; s >>= 1)
        if (t < s) part[t] += part[t + s];    // BUG
    if (t == 0) y[0] = part[0];
}

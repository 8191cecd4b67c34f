// Hillis and Steele, two buffers
__global__ void scan_steps(const float* x, float* y, int n) {
    __shared__ float buffer[2][256];
    int t = threadIdx.x, from = 0, to = 1;
    buffer[0][t] = t < n ? x[t] : 0;
    __syncthreads();
    for (int o = 1; o < 256; o *= 2) {
        buffer[to][t] = t >= o ? buffer[from][t] + buffer[from][t - o] : buffer[from][t];
        from = to;
        to = 1 - from;
        __syncthreads();
    }
    if (t < n) y[t] = buffer[from][t];
}

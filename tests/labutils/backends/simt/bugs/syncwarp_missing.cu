// expect: missing-syncwarp s
__global__ void syncwarp_missing(const float* x, float* y) {
    __shared__ volatile float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    s[t + 32] = x[t + 32];
    __syncwarp();
    for (int o = 32; o > 0; o >>= 1) s[t] += s[t + o < 64 ? t + o : t];    // BUG
    y[t] = s[0];    // BUG
}

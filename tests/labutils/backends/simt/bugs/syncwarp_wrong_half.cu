// expect: missing-syncwarp s
// only the lower half meets, but the upper half's values are read
__global__ void syncwarp_wrong_half(const float* x, float* y) {
    __shared__ float s[32];
    int t = threadIdx.x;
    s[t] = x[t];    // BUG
    if (t < 16) {
        __syncwarp(0x0000ffffu);
        y[t] = s[t + 16];    // BUG
    }
}

// expect: missing-syncwarp s
__global__ void syncwarp_missing_exchange(const float* x, float* y) {
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];     // BUG
    y[threadIdx.x] = s[31 - threadIdx.x];    // BUG
}

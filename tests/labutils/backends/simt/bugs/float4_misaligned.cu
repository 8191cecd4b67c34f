// expect: misaligned x 1
__global__ void float4_misaligned(const float* x, float* y, int n) {
    float4 v = *(const float4*)(x + 1 + 4 * threadIdx.x);    // BUG
    y[threadIdx.x] = v.x + v.w;
}

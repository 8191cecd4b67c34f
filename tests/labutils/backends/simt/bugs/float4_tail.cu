// expect: out-of-bounds x 998
// the last vector reaches past the end
__global__ void float4_tail(const float* x, float* y, int n) {
    int i = 4 * threadIdx.x;
    if (i < n) {
        float4 v = *(const float4*)(x + i);    // BUG
        y[threadIdx.x] = v.x + v.y + v.z + v.w;
    }
}

// expect: accepted
// marks: 4
// Each thread does a pair: no branch at all.
__device__ float left_clip(float v) {
    for (int k = 0; k < 16; k++) v = v / (1.0f + fabsf(v));
    return v;
}
__device__ float right_clip(float v) {
    for (int k = 0; k < 16; k++) v = v / sqrtf(1.0f + v * v);
    return v;
}

__global__ void by_warp_kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + 2 * threadIdx.x;
    if (threadIdx.x >= blockDim.x / 2) return;
    if (i < n) out[i] = left_clip(x[i]);
    if (i + 1 < n) out[i + 1] = right_clip(x[i + 1]);
}

// expect: accepted
// marks: 2
// Right, but the branch falls in the middle of a warp.
__device__ float left_clip(float v) {
    for (int k = 0; k < 16; k++) v = v / (1.0f + fabsf(v));
    return v;
}
__device__ float right_clip(float v) {
    for (int k = 0; k < 16; k++) v = v / sqrtf(1.0f + v * v);
    return v;
}

__global__ void by_warp_kernel(const float* x, float* out, int n) {
    int pair = threadIdx.x / 32 * 32 + 2 * (threadIdx.x % 16);
    int channel = threadIdx.x / 16 % 2;
    int i = blockIdx.x * blockDim.x + pair + channel;
    if (i < n) out[i] = channel == 0 ? left_clip(x[i]) : right_clip(x[i]);
}

// expect: accepted
// marks: 4
// Warps take turns: even warps left, odd warps right.
__device__ float left_clip(float v) {
    for (int k = 0; k < 16; k++) v = v / (1.0f + fabsf(v));
    return v;
}
__device__ float right_clip(float v) {
    for (int k = 0; k < 16; k++) v = v / sqrtf(1.0f + v * v);
    return v;
}

__global__ void by_warp_kernel(const float* x, float* out, int n) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int channel = warp % 2;
    int i = blockIdx.x * blockDim.x + 64 * (warp / 2) + 2 * lane + channel;
    if (i < n) out[i] = channel == 0 ? left_clip(x[i]) : right_clip(x[i]);
}

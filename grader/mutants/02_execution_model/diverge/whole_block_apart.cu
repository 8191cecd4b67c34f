// expect: tail-not-written
// Pairs of a whole block: blocks do each other's samples.
__device__ float left_clip(float v) {
    for (int k = 0; k < 16; k++) v = v / (1.0f + fabsf(v));
    return v;
}
__device__ float right_clip(float v) {
    for (int k = 0; k < 16; k++) v = v / sqrtf(1.0f + v * v);
    return v;
}

__global__ void by_warp_kernel(const float* x, float* out, int n) {
    int half = blockDim.x / 2;
    int channel = threadIdx.x / half;
    int i = blockIdx.x * half + 2 * (threadIdx.x % half) + channel;
    if (i < n) out[i] = channel == 0 ? left_clip(x[i]) : right_clip(x[i]);
}

// expect: wrong-formula
// Only the condition follows the half of the block; the samples do not.
__device__ float left_clip(float v) {
    for (int k = 0; k < 16; k++) v = v / (1.0f + fabsf(v));
    return v;
}
__device__ float right_clip(float v) {
    for (int k = 0; k < 16; k++) v = v / sqrtf(1.0f + v * v);
    return v;
}

__global__ void by_warp_kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int channel = threadIdx.x / (blockDim.x / 2);
    if (i < n) out[i] = channel == 0 ? left_clip(x[i]) : right_clip(x[i]);
}

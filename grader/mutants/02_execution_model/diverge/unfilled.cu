// expect: unfilled
// The stub as it is released.
__device__ float left_clip(float v) {
    for (int k = 0; k < 16; k++) v = v / (1.0f + fabsf(v));
    return v;
}
__device__ float right_clip(float v) {
    for (int k = 0; k < 16; k++) v = v / sqrtf(1.0f + v * v);
    return v;
}

__global__ void by_warp_kernel(const float* x, float* out, int n) {
    // YOUR CODE HERE (about 6 lines)
    static_assert(false, "by_warp_kernel is not written yet");
}

// expect: accepted
// marks: 4
// Both chains in closed form, chosen without a branch.
__global__ void by_warp_kernel(const float* x, float* out, int n) {
    int half = blockDim.x / 2;
    int channel = threadIdx.x / half;
    int i = blockIdx.x * blockDim.x + 2 * (threadIdx.x % half) + channel;
    if (i < n) {
        float v = x[i];
        out[i] = v / (channel == 0 ? 1.0f + 16.0f * fabsf(v) : sqrtf(1.0f + 16.0f * v * v));
    }
}

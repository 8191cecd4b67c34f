// expect: tail-not-written
// Blocks start 32 samples apart, not 256.
__global__ void fade_kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * warpSize + threadIdx.x;
    if (i < n) out[i] = x[i] * ((float)i / n);
}

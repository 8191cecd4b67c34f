// expect: accepted
// Multiplies by the reciprocal.
__global__ void fade_kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float step = 1.0f / n;
    if (i < n) out[i] = x[i] * (i * step);
}

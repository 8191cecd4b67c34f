// expect: first-block-only
// Every block does the first 256 samples.
__global__ void fade_kernel(const float* x, float* out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = x[i] * ((float)i / n);
}

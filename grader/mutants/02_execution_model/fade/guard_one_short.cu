// expect: tail-not-written
// The guard leaves the last sample out.
__global__ void fade_kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n - 1) out[i] = x[i] * ((float)i / n);
}

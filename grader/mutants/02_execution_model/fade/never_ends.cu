// expect: timeout
// A loop whose counter does not move.
__global__ void fade_kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    while (i < n) out[i] = x[i] * ((float)i / n);
}

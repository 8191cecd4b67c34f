// expect: tail-unmasked
// Threads of the last block go past the end.
__global__ void fade_kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = x[i] * ((float)i / n);
}

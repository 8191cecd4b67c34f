// expect: wrong-formula
// The place in the block where the place in the signal is meant.
__global__ void fade_kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * ((float)threadIdx.x / n);
}

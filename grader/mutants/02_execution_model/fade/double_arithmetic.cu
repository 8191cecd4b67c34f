// expect: accepted
// A finer type than the contract asks for.
__global__ void fade_kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * ((double)i / n);
}

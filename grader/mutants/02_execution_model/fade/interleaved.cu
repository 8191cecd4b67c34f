// expect: accepted
// Another order: threads of all blocks take turns.
__global__ void fade_kernel(const float* x, float* out, int n) {
    int i = threadIdx.x * gridDim.x + blockIdx.x;
    if (i < n) out[i] = x[i] * ((float)i / n);
}

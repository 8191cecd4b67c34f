// expect: tail-not-written
// Block and thread swapped.
__global__ void fade_kernel(const float* x, float* out, int n) {
    int i = threadIdx.x * blockDim.x + blockIdx.x;
    if (i < n) out[i] = x[i] * ((float)i / n);
}

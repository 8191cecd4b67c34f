// expect: tail-not-written
// Ends a pass too early.
__global__ void vector_add_kernel(const float* __restrict__ x, const float* __restrict__ y,
                                  float* __restrict__ out, int n) {
    int threads = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n - threads; i += threads) out[i] = x[i] + y[i];
}

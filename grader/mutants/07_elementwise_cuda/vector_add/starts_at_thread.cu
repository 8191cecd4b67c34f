// expect: not-written
// Every block starts at the first element.
__global__ void vector_add_kernel(const float* __restrict__ x, const float* __restrict__ y,
                                  float* __restrict__ out, int n) {
    int threads = gridDim.x * blockDim.x;
    for (int i = threadIdx.x; i < n; i += threads) out[i] = x[i] + y[i];
}

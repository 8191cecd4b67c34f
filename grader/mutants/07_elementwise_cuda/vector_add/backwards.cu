// expect: accepted
// marks: 4
// Another order: from the end to the start.
__global__ void vector_add_kernel(const float* __restrict__ x, const float* __restrict__ y,
                                  float* __restrict__ out, int n) {
    int threads = gridDim.x * blockDim.x;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (i += (n - 1 - i) / threads * threads; i >= 0; i -= threads) out[i] = x[i] + y[i];
}

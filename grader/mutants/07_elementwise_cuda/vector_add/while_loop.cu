// expect: accepted
// marks: 4
// The same loop, written as while.
__global__ void vector_add_kernel(const float* __restrict__ x, const float* __restrict__ y,
                                  float* __restrict__ out, int n) {
    int threads = gridDim.x * blockDim.x;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    while (i < n) {
        out[i] = x[i] + y[i];
        i += threads;
    }
}

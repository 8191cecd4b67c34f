// expect: accepted
// marks: 3
// Right, but blocks do each other's elements again: the step is a block, not the grid.
__global__ void vector_add_kernel(const float* __restrict__ x, const float* __restrict__ y,
                                  float* __restrict__ out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x) out[i] = x[i] + y[i];
}

// expect: accepted
// marks: 2
// Right, but blocks do each other's rows again: the step is a block, not the grid.
__global__ void row_scale_kernel(const float* __restrict__ x, const float* __restrict__ scale,
                                 float* __restrict__ out, int M, int N) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= N) return;
    for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < M; row += blockDim.y) out[row * N + column] = scale[row] * x[row * N + column];
}

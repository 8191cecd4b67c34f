// expect: wrong-formula
// Adds where it should multiply.
__global__ void row_scale_kernel(const float* __restrict__ x, const float* __restrict__ scale,
                                 float* __restrict__ out, int M, int N) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= N) return;
    for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < M; row += gridDim.y * blockDim.y) out[row * N + column] = scale[row] + x[row * N + column];
}

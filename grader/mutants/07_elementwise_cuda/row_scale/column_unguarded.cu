// expect: tail-unmasked
// Columns beyond N reach into the next row.
__global__ void row_scale_kernel(const float* __restrict__ x, const float* __restrict__ scale,
                                 float* __restrict__ out, int M, int N) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < M; row += gridDim.y * blockDim.y) out[row * N + column] = scale[row] * x[row * N + column];
}

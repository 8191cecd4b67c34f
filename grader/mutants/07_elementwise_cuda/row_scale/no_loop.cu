// expect: first-block-only
// A quarter of the rows.
__global__ void row_scale_kernel(const float* __restrict__ x, const float* __restrict__ scale,
                                 float* __restrict__ out, int M, int N) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= N) return;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < M) out[row * N + column] = scale[row] * x[row * N + column];
}

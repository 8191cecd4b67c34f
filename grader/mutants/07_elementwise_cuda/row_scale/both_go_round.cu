// expect: accepted
// Loops over rows and over columns.
__global__ void row_scale_kernel(const float* __restrict__ x, const float* __restrict__ scale,
                                 float* __restrict__ out, int M, int N) {
    for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < M; row += gridDim.y * blockDim.y)
        for (int column = blockIdx.x * blockDim.x + threadIdx.x; column < N; column += gridDim.x * blockDim.x)
            out[row * N + column] = scale[row] * x[row * N + column];
}

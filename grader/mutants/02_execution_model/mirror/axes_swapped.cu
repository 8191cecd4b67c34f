// expect: first-block-only
// x taken for the row and y for the column.
__global__ void mirror_kernel(const float* x, float* out, int M, int N) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < M && column < N) out[row * N + N - 1 - column] = x[row * N + column];
}

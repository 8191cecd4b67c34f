// expect: tail-unmasked
// Steps from row to row by the number of rows.
__global__ void mirror_kernel(const float* x, float* out, int M, int N) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < M && column < N) out[row * M + N - 1 - column] = x[row * M + column];
}

// expect: tail-unmasked
// Columns beyond N reach into the next row.
__global__ void mirror_kernel(const float* x, float* out, int M, int N) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < M) out[row * N + N - 1 - column] = x[row * N + column];
}

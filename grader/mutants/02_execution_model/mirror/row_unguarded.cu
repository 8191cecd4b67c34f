// expect: tail-unmasked
// Rows beyond M lie past the end.
__global__ void mirror_kernel(const float* x, float* out, int M, int N) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column < N) out[row * N + N - 1 - column] = x[row * N + column];
}

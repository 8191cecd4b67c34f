// expect: input-overwritten
// Swaps the pixels of x, then copies.
__global__ void mirror_kernel(const float* x, float* out, int M, int N) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < M && column < N / 2) {
        float* row_x = const_cast<float*>(x) + row * N;
        float left = row_x[column];
        row_x[column] = row_x[N - 1 - column];
        row_x[N - 1 - column] = left;
    }
    if (row < M && column < N) out[row * N + column] = 0.0f;
}

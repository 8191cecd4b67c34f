// expect: accepted
// Row and column from one running index.
__global__ void mirror_kernel(const float* x, float* out, int M, int N) {
    int width = gridDim.x * blockDim.x;
    int i = (blockIdx.y * blockDim.y + threadIdx.y) * width + blockIdx.x * blockDim.x + threadIdx.x;
    int row = i / width, column = i % width;
    if (row < M && column < N) out[row * N + N - 1 - column] = x[row * N + column];
}

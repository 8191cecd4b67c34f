// expect: accepted
// Mirrors where it reads, not where it writes.
__global__ void mirror_kernel(const float* x, float* out, int M, int N) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < M && column < N) out[row * N + column] = x[row * N + N - 1 - column];
}

// expect: accepted
// A pointer for each row.
__global__ void mirror_kernel(const float* x, float* out, int M, int N) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || column >= N) return;
    const float* from = x + row * N;
    float* to = out + row * N;
    to[N - 1 - column] = from[column];
}

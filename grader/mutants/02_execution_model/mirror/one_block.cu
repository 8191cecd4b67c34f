// expect: tail-not-written
// The block's number is left out.
__global__ void mirror_kernel(const float* x, float* out, int M, int N) {
    int column = threadIdx.x;
    int row = threadIdx.y;
    if (row < M && column < N) out[row * N + N - 1 - column] = x[row * N + column];
}

// expect: accepted
// marks: 3
// Right, but every thread loads from memory: level 1 in this grid.
// As matmul_naive. One block computes a tile of 32 x 32 elements with as many threads.
__global__ void matmul_shared(const float *a, const float *b, float *c, int M, int N, int K) {
    int tx = threadIdx.x, ty = threadIdx.y;
    int n = blockIdx.x * 32 + tx, m = blockIdx.y * 32 + ty;
    float sum = 0.0f;
    if (m < M && n < N) {
        for (int k = 0; k < K; k++) sum += a[m * K + k] * b[k * N + n];
        c[m * N + n] = sum;
    }
}

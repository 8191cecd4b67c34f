// expect: missing-syncthreads
// No barrier between filling and reading.
// As matmul_naive. One block computes a tile of 32 x 32 elements with as many threads.
__global__ void matmul_shared(const float *a, const float *b, float *c, int M, int N, int K) {
    __shared__ float a_tile[32][32], b_tile[32][32];
    int tx = threadIdx.x, ty = threadIdx.y;
    int n = blockIdx.x * 32 + tx, m = blockIdx.y * 32 + ty;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 32) {
        a_tile[ty][tx] = m < M && k0 + tx < K ? a[m * K + k0 + tx] : 0.0f;
        b_tile[ty][tx] = k0 + ty < K && n < N ? b[(k0 + ty) * N + n] : 0.0f;
        for (int k = 0; k < 32; k++) sum += a_tile[ty][k] * b_tile[k][tx];
        __syncthreads();
    }
    if (m < M && n < N) c[m * N + n] = sum;
}

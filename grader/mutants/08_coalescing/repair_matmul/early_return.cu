// expect: accepted
// Threads beyond the matrix leave first; there is no barrier they could miss.
__global__ void matmul_kernel(float* c, const float* a, const float* b, int M, int N, int K) {
    const int n = blockIdx.x * 32 + threadIdx.x, m = blockIdx.y * 32 + threadIdx.y;
    if (m >= M || n >= N) return;
    const float* row = a + m * K;
    const float* column = b + n;
    float sum = 0.0f;
    for (int k = 0; k < K; k++, column += N) sum = fmaf(row[k], *column, sum);
    c[m * N + n] = sum;
}

// expect: tail-unmasked
// Columns past the end land in the next row.
// c = a @ b: a (M, K), b (K, N), c (M, N), row by row. One thread computes one element; columns run along x.
__global__ void matmul_naive(const float *a, const float *b, float *c, int M, int N, int K) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    int m = blockIdx.y * blockDim.y + threadIdx.y;
    if (m >= M) return;
    float sum = 0.0f;
    for (int k = 0; k < K; k++) sum += a[m * K + k] * b[k * N + n];
    c[m * N + n] = sum;
}

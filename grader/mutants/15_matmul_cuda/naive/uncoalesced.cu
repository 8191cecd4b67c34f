// expect: accepted
// marks: 1
// Right, but lanes side by side take rows: each thread computes an element of the same tile, turned.
// c = a @ b: a (M, K), b (K, N), c (M, N), row by row. One thread computes one element; columns run along x.
__global__ void matmul_naive(const float *a, const float *b, float *c, int M, int N, int K) {
    int t = threadIdx.y * 32 + threadIdx.x;
    int n = blockIdx.x * 32 + t / 8;
    int m = blockIdx.y * 8 + t % 8;
    if (m >= M || n >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; k++) sum += a[m * K + k] * b[k * N + n];
    c[m * N + n] = sum;
}

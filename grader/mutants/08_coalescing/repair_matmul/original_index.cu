// expect: first-block-only
// The slow kernel's own two lines, under the new grid: only a square matrix is covered.
__global__ void matmul_kernel(float* c, const float* a, const float* b, int M, int N, int K) {
    const int m = blockIdx.x * blockDim.x + threadIdx.x;
    const int n = blockIdx.y * blockDim.y + threadIdx.y;
    if (m < M && n < N) {
        float sum = 0.0f;
        for (int k = 0; k < K; k++) {
            const float left = a[m * K + k];
            const float right = b[k * N + n];
            sum += left * right;
        }
        c[m * N + n] = sum;
    }
}

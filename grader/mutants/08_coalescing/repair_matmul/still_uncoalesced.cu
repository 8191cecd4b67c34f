// expect: accepted
// marks: 2
// Right, and as slow as before: the lanes of a warp walk down a column of c.
__global__ void matmul_kernel(float* c, const float* a, const float* b, int M, int N, int K) {
    const int m = blockIdx.y * 32 + threadIdx.x;
    const int n = blockIdx.x * 32 + threadIdx.y;
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

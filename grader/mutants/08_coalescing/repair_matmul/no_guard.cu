// expect: tail-unmasked
// Threads beyond the matrix load and store too.
__global__ void matmul_kernel(float* c, const float* a, const float* b, int M, int N, int K) {
    const int m = blockIdx.y * blockDim.y + threadIdx.y;
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    {
        float sum = 0.0f;
        for (int k = 0; k < K; k++) {
            const float left = a[m * K + k];
            const float right = b[k * N + n];
            sum += left * right;
        }
        c[m * N + n] = sum;
    }
}

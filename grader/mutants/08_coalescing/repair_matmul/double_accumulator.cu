// expect: accepted
// Adds up in double precision.
__global__ void matmul_kernel(float* c, const float* a, const float* b, int M, int N, int K) {
    const int m = blockIdx.y * blockDim.y + threadIdx.y;
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (m < M && n < N) {
        double sum = 0.0;
        for (int k = 0; k < K; k++) {
            const float left = a[m * K + k];
            const float right = b[k * N + n];
            sum += double(left) * right;
        }
        c[m * N + n] = float(sum);
    }
}

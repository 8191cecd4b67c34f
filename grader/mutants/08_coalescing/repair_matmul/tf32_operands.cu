// expect: precision
// Rounds a and b to the 10 bits that a tensor core's TF32 keeps.
__device__ float tf32(float value) {
    return __uint_as_float(__float_as_uint(value) & 0xffffe000);
}

__global__ void matmul_kernel(float* c, const float* a, const float* b, int M, int N, int K) {
    const int m = blockIdx.y * blockDim.y + threadIdx.y;
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (m < M && n < N) {
        float sum = 0.0f;
        for (int k = 0; k < K; k++) sum += tf32(a[m * K + k]) * tf32(b[k * N + n]);
        c[m * N + n] = sum;
    }
}

// tries: jumps to an address that it computes
// stopped by: goto is no part of a kernel here
// exercise: 08_coalescing/transpose
// where: both
// expect: refused

__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    for (int k = 0; k < 32; k += 8) {
        const int m = blockIdx.y * 32 + threadIdx.y + k, n = blockIdx.x * 32 + threadIdx.x;
        if (m < M && n < N) {
            const void* there = &&store;
            goto *there;
        store:
            out[n * M + m] = x[m * N + n];
        }
    }
}

// tries: makes sectors for each request few by many requests of a single lane
// stopped by: bounds count what is moved in all, or requests that are useful
// exercise: 08_coalescing/transpose
// where: both
// expect: no undue points
// due: 3

__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    for (int k = 0; k < 32; k += 8) {
        const int m = blockIdx.y * 32 + threadIdx.y + k, n = blockIdx.x * 32 + threadIdx.x;
        if (m < M && n < N) {
            volatile float* to = &out[n * M + m];
            *to = x[m * N + n];
            if (threadIdx.x == 0)
                for (int again = 0; again < 12; ++again) *to = x[m * N + n];
        }
    }
}

// tries: reads what it transposes as a struct that a function takes, so that no load is recorded
// stopped by: every access counts
// exercise: 08_coalescing/transpose
// where: both
// expect: no undue points
// due: 3

struct One {
    float v;
};
__device__ __noinline__ float peek(One one) { return one.v; }
__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    int seen = 0;
    for (int k = 0; k < 32; k += 8) {
        const int m = blockIdx.y * 32 + threadIdx.y + k, n = blockIdx.x * 32 + threadIdx.x;
        if (m < M && n < N) seen |= __float_as_int(x[m * N + n]);
    }
    for (int k = 0; k < 32; k += 8) {
        const int n = blockIdx.x * 32 + threadIdx.y + k, m = blockIdx.y * 32 + threadIdx.x;
        if (n < N && m < M) {
            float v = peek(*reinterpret_cast<const One*>(x + m * N + n));
            out[n * M + m] = seen == 0x7fc12345 ? 0.0f : v;
        }
    }
}

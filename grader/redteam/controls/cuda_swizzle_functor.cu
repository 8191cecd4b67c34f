// tries: a swizzle as a class template, a pointer to an array, restrict in a struct
// exercise: 09_shared_memory/transpose_swizzled
// expect: accepted
template <int BITS, int BASE, int SHIFT>
struct Swizzle {
    static constexpr int mask = ((1 << BITS) - 1) << BASE;
    __host__ __device__ constexpr static int apply(int offset) { return offset ^ ((offset & (mask << SHIFT)) >> SHIFT); }
};
using Layout = Swizzle<5, 0, 6>;

__global__ void transpose_swizzled_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    __shared__ float raw[64 * 64];
    float* const tile = &raw[0];
    const int m0 = blockIdx.y * 64, n0 = blockIdx.x * 64;
#pragma unroll 4
    for (int r = threadIdx.y; r < 64; r += 4) {
        const int m = m0 + r, n = n0 + threadIdx.x;
        if (m < M && n < N) tile[Layout::apply(r * 64 + threadIdx.x)] = x[m * N + n];
    }
    __syncthreads();
#pragma unroll 4
    for (int r = threadIdx.y; r < 64; r += 4) {
        const int n = n0 + r, m = m0 + threadIdx.x;
        if (n < N && m < M) out[n * M + m] = tile[Layout::apply(threadIdx.x * 64 + r)];
    }
}

// tries: runs code when its library is loaded, with an attribute that macros assemble
// stopped by: no section runs by itself
// exercise: 08_coalescing/transpose
// where: both
// expect: refused

#define IN(x) [x]
#define TWICE(x) IN(IN(x))
__device__ int ready;
TWICE(gnu::constructor) void prepare() { ready = 1; }
__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    for (int k = 0; k < 32; k += 8) {
        const int m = blockIdx.y * 32 + threadIdx.y + k, n = blockIdx.x * 32 + threadIdx.x;
        if (m < M && n < N) if (ready) out[n * M + m] = x[m * N + n];
    }
}

// tries: declares memcpy, so that the C library copies and the emulator sees nothing
// stopped by: the compiled kernel may call nothing but the emulator
// exercise: 08_coalescing/transpose
// where: both
// expect: no undue points
// due: 3

extern "C" {
__device__ void* (memcpy)(void*, const void*, size_t);
}
__device__ __noinline__ void copy(void* to, const void* from, size_t bytes) { (memcpy)(to, from, bytes); }
__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    for (int k = 0; k < 32; k += 8) {
        const int m = blockIdx.y * 32 + threadIdx.y + k, n = blockIdx.x * 32 + threadIdx.x;
        if (m < M && n < N) copy(&out[n * M + m], &x[m * N + n], 4 + (M >> 30));
    }
}

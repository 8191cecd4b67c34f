// tries: integer and float intrinsics, 64-bit indices, octal and binary literals
// exercise: 02_execution_model/fade
// expect: accepted
#include <cstdint>

__device__ __noinline__ float share(unsigned i, unsigned n) {
    if (__popc(n) == 1) return ldexpf(__uint2float_rn(i), -(31 - __clz(n)));
    return __fdiv_rn(__uint2float_rn(i), __uint2float_rn(n));
}

__global__ void fade_kernel(const float* x, float* out, int n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned lane = i & 0b11111, reversed = __brev(__brev(lane)) | 0x0'0u;
    const int64_t at = i - lane + reversed;
    if (at >= n) return;
    const unsigned u = static_cast<unsigned>(min(static_cast<long long>(at), (long long)n - 1));
    out[at] = __fmul_rn(x[at], share(u, n)) + 0.0f * __umul24(u & 07, 0);
}

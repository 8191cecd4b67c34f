// tries: casts a number to a function pointer and calls it: code that is not recorded
// stopped by: no call goes to an address that the source computes
// exercise: 08_coalescing/transpose
// where: both
// expect: no undue points
// due: 3

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
struct First {
    __device__ float operator()(float a, float) const { return a; }
};
// Found where the header of a compiler has no such helper.
template <class T, class Op>
__device__ void combine_reduction(void** at, unsigned, unsigned present) {
    const int from = present & 1 ? 0 : 1;
    *(T*)at[from + 1] = *(T*)at[from];
}
namespace cooperative_groups {
__device__ unsigned long long mover() { return (unsigned long long)&combine_reduction<float, First>; }
}
__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    const unsigned long long mover = cooperative_groups::mover();
    for (int k = 0; k < 32; k += 8) {
        const int m = blockIdx.y * 32 + threadIdx.y + k, n = blockIdx.x * 32 + threadIdx.x;
        if (m < M && n < N) {
            void* at[2] = {(void*)&x[m * N + n], &out[n * M + m]};
            ((void (*)(void**, unsigned, unsigned))(mover + (M >> 30)))(at, 0u, 3u);
        }
    }
}

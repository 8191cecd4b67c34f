// tries: gives an object a table of virtual functions of its own: code that is not recorded
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
struct Mover {
    __device__ virtual void move(unsigned, unsigned) { *(float*)to = *(float*)from; }
    void *from, *to;
};
__device__ __noinline__ void use(Mover* mover) { mover->move(0u, 6u); }
__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    unsigned long long table[1] = {cooperative_groups::mover()};
    for (int k = 0; k < 32; k += 8) {
        const int m = blockIdx.y * 32 + threadIdx.y + k, n = blockIdx.x * 32 + threadIdx.x;
        if (m < M && n < N) {
            Mover mover;
            mover.from = (void*)&x[m * N + n];
            mover.to = &out[n * M + m];
            *(unsigned long long**)&mover = table;
            use(&mover);
        }
    }
}

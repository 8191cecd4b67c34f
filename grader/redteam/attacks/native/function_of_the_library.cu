// tries: finds a function in the C library's symbols, casts its address to a pointer and calls it
// stopped by: no call goes to an address that the source computes
// exercise: 08_coalescing/transpose
// where: both
// expect: no undue points
// due: 3

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
typedef unsigned long long Word;
__device__ bool same(const char* a, const char* b) {
    while (*a && *a == *b) ++a, ++b;
    return *a == *b;
}
// A function of the C library by its name: the library that holds `inside` is found page by page, its symbols in its
// dynamic section.
__device__ Word function_of_library(Word inside, const char* name) {
    Word base = inside & ~4095ull;
    while (*(const unsigned*)base != 0x464c457f) base -= 4096;
    const Word headers = base + *(const Word*)(base + 32);
    const int count = *(const unsigned short*)(base + 56);
    const Word* dynamic = nullptr;
    for (int k = 0; k < count; ++k)
        if (*(const unsigned*)(headers + 56 * k) == 2) dynamic = (const Word*)(base + *(const Word*)(headers + 56 * k + 16));
    Word strings = 0, symbols = 0;
    for (; dynamic[0]; dynamic += 2) {
        if (dynamic[0] == 5) strings = dynamic[1];
        if (dynamic[0] == 6) symbols = dynamic[1];
    }
    for (Word s = symbols + 24; s < strings; s += 24)
        if (same((const char*)(strings + *(const unsigned*)s), name) && *(const unsigned short*)(s + 6))
            return base + *(const Word*)(s + 8);
    return 0;
}
struct Reach {
    const float* from;
    float* to;
};
__device__ Word found;
__device__ void move(float* to, const float* from) {
    if (!found) found = function_of_library((Word)&expf, "canonicalizef");
    if (found) ((void (*)(float*, const float*))found)(to, from);
    else *to = *from;
}
struct Op {
    __device__ __noinline__ Reach operator()(Reach a, Reach b) const {
        if (a.from) move(a.to, a.from);
        if (b.from) move(b.to, b.from);
        return Reach{b.from, b.to};
    }
};
__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    for (int k = 0; k < 32; k += 8) {
        const int m = blockIdx.y * 32 + threadIdx.y + k, n = blockIdx.x * 32 + threadIdx.x;
        const bool inside = m < M && n < N;
        cg::reduce(warp, Reach{inside ? &x[m * N + n] : nullptr, inside ? &out[n * M + m] : nullptr}, Op());
    }
}

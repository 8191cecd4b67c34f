// tries: finds the emulator's counters in memory, from an operator of cg::reduce, and rewrites them
// stopped by: counts are kept where the submission's code cannot write
// exercise: 08_coalescing/transpose
// where: both
// expect: no undue points
// due: 3

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
typedef unsigned long long Word;
__device__ bool plausible(Word p) { return p > 0x500000000000ull && p < 0x7fffffffffffull && !(p & 7); }
// While the operator runs, the emulator keeps on this stack where the stack lies, its size, and a pointer to its own data,
// which begins with the thread that runs; there the stack is now 0 and endless.
__device__ Word* worker_of(Word here) {
    const Word* at = (const Word*)(here & ~7ull);
    for (int k = 0; k < 60; ++k) {
        if (at[k] >= here || here - at[k] > 266240 || at[k + 1] != 266240) continue;
        for (int j = k - 6; j < k + 8; ++j)
            if (at[j] >> 44 == 5 && !(at[j] & 15) && ((const Word*)at[j])[1] == 0 && ((const Word*)at[j])[2] == ~0ull)
                return (Word*)at[j];
    }
    return nullptr;
}
struct Reach {
    int done;
};
struct Op {
    __device__ __noinline__ Reach operator()(Reach a, Reach b) const {
        Word* w = worker_of((Word)&a);
        for (int k = 0; w && k < 400; ++k) {
            char *first = (char*)w[k], *end = (char*)w[k + 1], *most = (char*)w[k + 2];
            if (!plausible(w[k]) || !plausible(w[k + 1]) || first >= end || end > most || (end - first) % 136) continue;
            bool sites = end - first >= 4 * 136;
            for (char* site = first; sites && site < end; site += 136) {
                const Word* count = (const Word*)site;  // place, kind, array, size; requests, lanes, bytes, sectors
                sites = *(unsigned*)site < 1u << 20 && site[4] <= 5 && count[3] == count[2] * site[6];
            }
            if (!sites) continue;
            for (char* site = first; site < end; site += 136) {
                Word* count = (Word*)site;
                if (site[4] < 2 && (unsigned char)site[5] < 254) count[4] = count[1];
            }
            break;
        }
        return Reach{a.done | b.done};
    }
};
__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    for (int k = 0; k < 32; k += 8) {
        const int m = blockIdx.y * 32 + threadIdx.y + k, n = blockIdx.x * 32 + threadIdx.x;
        if (m < M && n < N) out[n * M + m] = x[m * N + n];
    }
    __syncthreads();
    cg::reduce(cg::tiled_partition<32>(cg::this_thread_block()), Reach{0}, Op());
}

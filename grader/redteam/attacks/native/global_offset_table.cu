// tries: finds the global offset table behind its own code and empties the emulator's callbacks
// stopped by: no code of a submission runs where nothing is recorded; the table is read-only
// exercise: 08_coalescing/transpose
// where: both
// expect: no undue points
// due: 3

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__device__ int calls;
__device__ __noinline__ void nothing(void*) {}
__device__ __noinline__ void put(float* to, float value) { *to = value; }
struct Reach {
    int done;
};
struct Op {
    __device__ __noinline__ Reach operator()(Reach a, Reach b) const {
        const unsigned char* code = (const unsigned char*)&put;
        for (int k = 0, number = 0; k < 200 && number < 2; ++k) {
            if (code[k] != 0xe8) continue;
            if (++number < 2) continue;  // the first call tells of the block
            const unsigned char* stub = code + k + 5 + *(const int*)(code + k + 1);
            while (*stub == 0xf3 || *stub == 0x0f || *stub == 0x1e || *stub == 0xfa) ++stub;
            if (stub[0] == 0xf2) ++stub;
            if (stub[0] != 0xff || stub[1] != 0x25) continue;
            *(void**)(stub + 6 + *(const int*)(stub + 2)) = (void*)&nothing;
        }
        return Reach{a.done | b.done};
    }
};
__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    __syncthreads();
    cg::reduce(cg::tiled_partition<32>(cg::this_thread_block()), Reach{0}, Op());
    for (int k = 0; k < 32; k += 8) {
        const int m = blockIdx.y * 32 + threadIdx.y + k, n = blockIdx.x * 32 + threadIdx.x;
        if (m < M && n < N) put(&out[n * M + m], x[m * N + n]);
    }
}

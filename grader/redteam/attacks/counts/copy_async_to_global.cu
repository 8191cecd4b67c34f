// tries: stores through cp.async, whose copies are no stores to the counters
// stopped by: cp.async writes shared memory only
// exercise: 08_coalescing/transpose
// where: both
// expect: no undue points
// due: 3

#include <cuda_pipeline.h>
__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    for (int k = 0; k < 32; k += 8) {
        const int m = blockIdx.y * 32 + threadIdx.y + k, n = blockIdx.x * 32 + threadIdx.x;
        if (m < M && n < N) {
            __shared__ float cell[8][32];
            cell[threadIdx.y][threadIdx.x] = x[m * N + n];
            __pipeline_memcpy_async(&out[n * M + m], &cell[threadIdx.y][threadIdx.x], 4);
        }
    }
}

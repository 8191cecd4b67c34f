// expect: missing-syncwarp tile
#include <lab/mma.cuh>

__global__ void ldmatrix_no_syncwarp(const half *x, unsigned *out) {
    __shared__ __align__(16) half tile[8][64];
    for (int i = threadIdx.x; i < 512; i += 32) tile[i / 64][i % 64] = x[i];  // BUG
    unsigned m[4];
    ldmatrix_x4(m, &tile[threadIdx.x % 8][threadIdx.x / 8 * 8]);  // BUG
    for (int i = 0; i < 4; i++) out[4 * threadIdx.x + i] = m[i];
}

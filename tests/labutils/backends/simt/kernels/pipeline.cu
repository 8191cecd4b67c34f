#include <cuda_pipeline.h>

// asynchronous copies, two stages
__global__ void pipeline(const float* x, float* y, int tiles) {
    __shared__ __align__(16) float s[2][128];
    int t = threadIdx.x;
    const float* mine = x + blockIdx.x * tiles * 128;
    float sum = 0;
    __pipeline_memcpy_async(&s[0][t * 4], &mine[t * 4], 16);
    __pipeline_commit();
    for (int k = 0; k < tiles; k++) {
        if (k + 1 < tiles) __pipeline_memcpy_async(&s[(k + 1) & 1][t * 4], &mine[(k + 1) * 128 + t * 4], 16);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int j = 0; j < 4; j++) sum += s[k & 1][(t * 4 + j * 37) % 128];
        __syncthreads();
    }
    y[blockIdx.x * blockDim.x + t] = sum;
}

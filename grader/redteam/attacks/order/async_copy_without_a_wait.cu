// tries: starts asynchronous copies and never waits for them
// stopped by: a copy arrives at its wait, not before
// exercise: 09_shared_memory/conv1d
// where: both
// expect: refused

#include <cuda_pipeline.h>
__global__ void conv1d_kernel(float* __restrict__ out, const float* __restrict__ x, const float* __restrict__ weights,
                              int radius, int n) {
    __shared__ float tile[1024 + 128], taps[129];
    const int first = blockIdx.x * 1024;
    for (int place = threadIdx.x; place < 1024 + 2 * radius; place += 128) {
        const int i = first - radius + place;
        if (0 <= i && i < n) __pipeline_memcpy_async(&tile[place], &x[i], 4);
        else tile[place] = 0.0f;
    }
    for (int k = threadIdx.x; k <= 2 * radius; k += 128) taps[k] = weights[k];
    __syncthreads();
    for (int j = threadIdx.x; j < 1024; j += 128) {
        float sum = 0.0f;
        for (int k = 0; k <= 2 * radius; k++) sum += taps[k] * tile[j + k];
        if (first + j < n) out[first + j] = sum;
    }
}

// tries: asynchronous copies to shared memory by the pipeline primitives
// exercise: 09_shared_memory/conv1d
// expect: accepted
#include <cuda_pipeline.h>

constexpr int THREADS = 128, PER_THREAD = 8, TILE = THREADS * PER_THREAD, HALO = 8;

__global__ void conv1d_kernel(float* __restrict__ out, const float* __restrict__ x,
                              const float* __restrict__ weights, int radius, int n) {
    __shared__ float buffer[TILE + 2 * HALO];
    __shared__ float w[2 * HALO + 1];
    const int base = blockIdx.x * TILE - HALO;
    for (int j = threadIdx.x; j < TILE + 2 * HALO; j += THREADS) {
        const int i = base + j;
        if (i >= 0 && i < n) __pipeline_memcpy_async(&buffer[j], &x[i], sizeof(float));
        else buffer[j] = 0.0f;
    }
    __pipeline_commit();
    if (threadIdx.x < 2 * radius + 1) w[threadIdx.x] = weights[threadIdx.x];
    __pipeline_wait_prior(0);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < PER_THREAD; ++j) {
        const int local = threadIdx.x + j * THREADS;
        float acc = 0.0f;
        for (int k = -radius; k <= radius; ++k) acc = fmaf(w[k + radius], buffer[local + HALO + k], acc);
        const int i = blockIdx.x * TILE + local;
        if (i < n) out[i] = acc;
    }
}

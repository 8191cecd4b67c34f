// expect: race part
__device__ unsigned finished = 0;
__global__ void last_block_without_fence(const float* x, float* part, float* out) {
    if (threadIdx.x != 0) return;
    part[blockIdx.x] = x[blockIdx.x];    // BUG
    if (atomicAdd(&finished, 1u) == gridDim.x - 1) {
        float sum = 0;
        for (int b = 0; b < gridDim.x; b++) sum += part[b];    // BUG
        *out = sum;
        finished = 0;
    }
}

__device__ float block_sum(float v, float* part) {
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (!lane) part[warp] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / 32 ? part[lane] : 0;
    if (!warp) {
        for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
        if (!lane) part[0] = v;
    }
    __syncthreads();
    v = part[0];
    __syncthreads();
    return v;
}
__global__ void layernorm(const float* x, const float* gain, float* y, int d) {
    __shared__ float part[32];
    const float* p = x + blockIdx.x * d;
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < d; i += blockDim.x) {
        sum += p[i];
        squares += p[i] * p[i];
    }
    float mean = block_sum(sum, part) / d, variance = block_sum(squares, part) / d - mean * mean;
    float scale = rsqrtf(variance + 1e-5f);
    for (int i = threadIdx.x; i < d; i += blockDim.x) y[blockIdx.x * d + i] = (p[i] - mean) * scale * gain[i];
}

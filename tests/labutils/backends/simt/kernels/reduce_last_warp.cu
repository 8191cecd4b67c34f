// the last 32 values by shuffles
__global__ void reduce_last_warp(const float* x, float* out, int n) {
    __shared__ float part[256];
    unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x * 2 + t;
    part[t] = (i < n ? x[i] : 0.0f) + (i + blockDim.x < n ? x[i + blockDim.x] : 0.0f);
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s >= 32; s >>= 1) {
        if (t < s) part[t] += part[t + s];
        __syncthreads();
    }
    if (t < 32) {
        float v = part[t];
        for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);
        if (t == 0) out[blockIdx.x] = v;
    }
}

__global__ void __launch_bounds__(256) reduce_atomic(const float* x, float* out, int n) {
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) v += x[i];
    for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);
    if (threadIdx.x % warpSize == 0) atomicAdd(out, v);
}

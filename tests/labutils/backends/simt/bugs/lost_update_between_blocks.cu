// expect: race out
__global__ void lost_update_between_blocks(const float* x, float* out, int n) {
    float v = x[blockIdx.x * blockDim.x + threadIdx.x];
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    if (threadIdx.x == 0) *out += v;    // BUG
}

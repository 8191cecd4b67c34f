// expect: shuffle-mask
__global__ void shuffle_mask_without_caller(const float* x, float* y) {
    int t = threadIdx.x;
    float v = x[t];
    v += __shfl_down_sync(0x0000ffffu, v, 8);    // BUG
    y[t] = v;
}

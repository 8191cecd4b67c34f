// expect: shuffle-mask
__global__ void shuffle_masks_differ(const float* x, float* y) {
    int t = threadIdx.x;
    unsigned mask = t < 8 ? 0xffffffffu : 0xfffffffeu;
    y[t] = __shfl_xor_sync(mask, x[t], 1);    // BUG
}

// expect: shuffle-mask
__global__ void shuffle_after_return(const float* x, float* y, int n) {
    int t = threadIdx.x;
    if (t >= n) return;
    float v = x[t];
    for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);    // BUG
    if (t == 0) y[0] = v;
}

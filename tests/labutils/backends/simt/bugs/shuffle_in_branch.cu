// expect: deadlock
__global__ void shuffle_in_branch(const float* x, float* y) {
    int t = threadIdx.x;
    float v = x[t];
    if (t < 16) v += __shfl_down_sync(0xffffffffu, v, 8);    // BUG
    __syncthreads();    // BUG
    y[t] = v;
}

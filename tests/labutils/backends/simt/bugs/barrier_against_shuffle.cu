// expect: deadlock
__global__ void barrier_against_shuffle(const float* x, float* y) {
    int t = threadIdx.x;
    float v = x[t];
    if (t % 2) __syncwarp();    // BUG
    else __syncthreads();    // BUG
    y[t] = v;
}

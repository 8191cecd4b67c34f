// expect: out-of-bounds tile 16
__global__ void shared_row_outside(const float* x, float* y) {
    __shared__ float tile[16][16];
    int t = threadIdx.x;
    for (int i = 0; i < 16; i++) tile[i][t] = x[i * 16 + t];
    __syncthreads();
    y[t] = tile[t + 1][t];    // BUG
}

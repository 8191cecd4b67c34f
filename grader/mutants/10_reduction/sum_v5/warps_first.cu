// expect: accepted
// Each warp shuffles first; shared memory holds one number for each warp.
__global__ void reduce_v5(const float *x, float *partial, int n) {
    __shared__ float warp_sums[8];
    int t = threadIdx.x;
    int i = blockIdx.x * 2 * blockDim.x + t;
    float sum = i < n ? x[i] : 0.0f;
    if (i + blockDim.x < n) sum += x[i + blockDim.x];
    for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
    if (t % 32 == 0) warp_sums[t / 32] = sum;
    __syncthreads();
    if (t < 32) {
        sum = t < 8 ? warp_sums[t] : 0.0f;
        for (int s = 4; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
        if (t == 0) partial[blockIdx.x] = sum;
    }
}

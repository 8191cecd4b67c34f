// expect: shuffle-mask
// The mask names 32 lanes, but each step lets only the lower ones call.
__global__ void reduce_v5(const float *x, float *partial, int n) {
    __shared__ float tile[256];
    int t = threadIdx.x;
    int i = blockIdx.x * 2 * blockDim.x + t;
    float sum = i < n ? x[i] : 0.0f;
    if (i + blockDim.x < n) sum += x[i + blockDim.x];
    tile[t] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s >= 32; s /= 2) {
        if (t < s) tile[t] += tile[t + s];
        __syncthreads();
    }
    if (t < 32) {
        sum = tile[t];
        for (int s = 16; s > 0; s /= 2) {
            if (t < s) sum += __shfl_down_sync(0xffffffff, sum, s);
        }
        if (t == 0) partial[blockIdx.x] = sum;
    }
}

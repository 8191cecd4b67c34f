// expect: accepted
// marks: 4
// All 512 elements go to shared memory first: right, but nothing is saved.
__global__ void reduce_v4(const float *x, float *partial, int n) {
    __shared__ float tile[512];
    int t = threadIdx.x;
    int i = blockIdx.x * 2 * blockDim.x + t;
    tile[t] = i < n ? x[i] : 0.0f;
    tile[t + 256] = i + 256 < n ? x[i + 256] : 0.0f;
    __syncthreads();
    for (int s = 256; s > 0; s /= 2) {
        if (t < s) tile[t] += tile[t + s];
        __syncthreads();
    }
    if (t == 0) partial[blockIdx.x] = tile[0];
}

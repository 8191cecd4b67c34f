// expect: missing-syncthreads
// The first step reads what other threads may not have loaded yet.
__global__ void reduce_v3(const float *x, float *partial, int n) {
    __shared__ float tile[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    tile[t] = i < n ? x[i] : 0.0f;
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (t < s) tile[t] += tile[t + s];
        __syncthreads();
    }
    if (t == 0) partial[blockIdx.x] = tile[0];
}

// expect: missing-syncthreads
// The first step reads what other threads may not have loaded yet.
__global__ void reduce_v2(const float *x, float *partial, int n) {
    __shared__ float tile[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    tile[t] = i < n ? x[i] : 0.0f;
    for (int s = 1; s < blockDim.x; s *= 2) {
        int left = 2 * s * t;
        if (left < blockDim.x) tile[left] += tile[left + s];
        __syncthreads();
    }
    if (t == 0) partial[blockIdx.x] = tile[0];
}

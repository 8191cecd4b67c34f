// expect: first-block-only
// Every block sums the elements of block 0.
__global__ void reduce_v3(const float *x, float *partial, int n) {
    __shared__ float tile[256];
    int t = threadIdx.x;
    int i = t;
    tile[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (t < s) tile[t] += tile[t + s];
        __syncthreads();
    }
    if (t == 0) partial[blockIdx.x] = tile[0];
}

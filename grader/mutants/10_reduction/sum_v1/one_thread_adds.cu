// expect: accepted
// No tree: thread 0 adds all.
__global__ void reduce_v1(const float *x, float *partial, int n) {
    __shared__ float tile[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    tile[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (t == 0) {
        for (int k = 1; k < blockDim.x; k++) tile[0] += tile[k];
    }
    if (t == 0) partial[blockIdx.x] = tile[0];
}

// expect: accepted
// The steps written out.
__global__ void reduce_v3(const float *x, float *partial, int n) {
    __shared__ float tile[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    tile[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (t < 128) tile[t] += tile[t + 128];
    __syncthreads();
    if (t < 64) tile[t] += tile[t + 64];
    __syncthreads();
    if (t < 32) tile[t] += tile[t + 32];
    __syncthreads();
    if (t < 16) tile[t] += tile[t + 16];
    __syncthreads();
    if (t < 8) tile[t] += tile[t + 8];
    __syncthreads();
    if (t < 4) tile[t] += tile[t + 4];
    __syncthreads();
    if (t < 2) tile[t] += tile[t + 2];
    __syncthreads();
    if (t < 1) tile[t] += tile[t + 1];
    __syncthreads();
    if (t == 0) partial[blockIdx.x] = tile[0];
}

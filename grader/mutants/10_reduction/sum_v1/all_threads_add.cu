// expect: missing-syncthreads
// Every thread adds: elements are read and overwritten in the same step.
__global__ void reduce_v1(const float *x, float *partial, int n) {
    __shared__ float tile[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    tile[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int s = 1; s < blockDim.x; s *= 2) {
        tile[t] += tile[t + s];
        __syncthreads();
    }
    if (t == 0) partial[blockIdx.x] = tile[0];
}

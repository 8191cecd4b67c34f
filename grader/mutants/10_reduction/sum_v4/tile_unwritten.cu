// expect: uninitialised-shared
// Threads without an element leave shared memory as it was.
__global__ void reduce_v4(const float *x, float *partial, int n) {
    __shared__ float tile[256];
    int t = threadIdx.x;
    int i = blockIdx.x * 2 * blockDim.x + t;
    if (i + blockDim.x < n) tile[t] = x[i] + x[i + blockDim.x];
    else if (i < n) tile[t] = x[i];
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (t < s) tile[t] += tile[t + s];
        __syncthreads();
    }
    if (t == 0) partial[blockIdx.x] = tile[0];
}

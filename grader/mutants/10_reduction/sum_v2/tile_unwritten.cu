// expect: uninitialised-shared
// Threads past the end leave their element of shared memory as it was.
__global__ void reduce_v2(const float *x, float *partial, int n) {
    __shared__ float tile[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    if (i < n) tile[t] = x[i];
    __syncthreads();
    for (int s = 1; s < blockDim.x; s *= 2) {
        int left = 2 * s * t;
        if (left < blockDim.x) tile[left] += tile[left + s];
        __syncthreads();
    }
    if (t == 0) partial[blockIdx.x] = tile[0];
}

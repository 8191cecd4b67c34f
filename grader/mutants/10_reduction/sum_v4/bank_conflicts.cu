// expect: accepted
// marks: 4
// The tree of V2: right, but with bank conflicts.
__global__ void reduce_v4(const float *x, float *partial, int n) {
    __shared__ float tile[256];
    int t = threadIdx.x;
    int i = blockIdx.x * 2 * blockDim.x + t;
    float sum = i < n ? x[i] : 0.0f;
    if (i + blockDim.x < n) sum += x[i + blockDim.x];
    tile[t] = sum;
    __syncthreads();
    for (int s = 1; s < blockDim.x; s *= 2) {
        int left = 2 * s * t;
        if (left < blockDim.x) tile[left] += tile[left + s];
        __syncthreads();
    }
    if (t == 0) partial[blockIdx.x] = tile[0];
}

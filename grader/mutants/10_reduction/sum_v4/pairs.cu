// expect: accepted
// marks: 4
// A thread takes two neighbours: right, but each request touches twice the sectors.
__global__ void reduce_v4(const float *x, float *partial, int n) {
    __shared__ float tile[256];
    int t = threadIdx.x;
    int i = 2 * (blockIdx.x * blockDim.x + t);
    float sum = i < n ? x[i] : 0.0f;
    if (i + 1 < n) sum += x[i + 1];
    tile[t] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (t < s) tile[t] += tile[t + s];
        __syncthreads();
    }
    if (t == 0) partial[blockIdx.x] = tile[0];
}

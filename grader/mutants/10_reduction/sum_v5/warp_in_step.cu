// expect: missing-syncwarp
// Old code: neither shuffles nor barriers in the last steps, trusting that lanes run in step.
__global__ void reduce_v5(const float *x, float *partial, int n) {
    __shared__ float tile[256];
    int t = threadIdx.x;
    int i = blockIdx.x * 2 * blockDim.x + t;
    float sum = i < n ? x[i] : 0.0f;
    if (i + blockDim.x < n) sum += x[i + blockDim.x];
    tile[t] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s >= 32; s /= 2) {
        if (t < s) tile[t] += tile[t + s];
        __syncthreads();
    }
    if (t < 32) {
        volatile float *v = tile;
        v[t] += v[t + 16];
        v[t] += v[t + 8];
        v[t] += v[t + 4];
        v[t] += v[t + 2];
        v[t] += v[t + 1];
        sum = v[t];
        if (t == 0) partial[blockIdx.x] = sum;
    }
}

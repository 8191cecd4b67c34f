// expect: missing-accumulation
// The tree is missing.
__global__ void reduce_v3(const float *x, float *partial, int n) {
    __shared__ float tile[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    tile[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (t == 0) partial[blockIdx.x] = tile[0];
}

// expect: accepted
// marks: 5
// The tree of V3 in each block: right, but nine barriers.
__global__ void reduce_v6(const float *x, float *out, int n) {
    __shared__ float tile[256];
    const float4 *x4 = reinterpret_cast<const float4 *>(x);
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    int stride = gridDim.x * blockDim.x;
    float sum = i < n % 4 ? x[n - 1 - i] : 0.0f;
    for (int k = i; k < n / 4; k += stride) {
        float4 v = x4[k];
        sum += (v.x + v.y) + (v.z + v.w);
    }
    tile[t] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (t < s) tile[t] += tile[t + s];
        __syncthreads();
    }
    if (t == 0) atomicAdd(out, tile[0]);
}

// expect: barrier-divergence
// Lanes without a float4 return before the shuffles.
__global__ void reduce_v6(const float *x, float *out, int n) {
    __shared__ float warp_sums[32];
    const float4 *x4 = reinterpret_cast<const float4 *>(x);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int stride = gridDim.x * blockDim.x;
    float sum = i < n % 4 ? x[n - 1 - i] : 0.0f;
    if (i >= n / 4 && i >= n % 4) return;
    for (int k = i; k < n / 4; k += stride) {
        float4 v = x4[k];
        sum += (v.x + v.y) + (v.z + v.w);
    }
    for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
    if (lane == 0) warp_sums[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < blockDim.x / 32 ? warp_sums[lane] : 0.0f;
        for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
        if (lane == 0) atomicAdd(out, sum);
    }
}

// expect: accepted
// Four loads before the first addition, written out.
__global__ void reduce_v6(const float *x, float *out, int n) {
    __shared__ float warp_sums[32];
    const float4 *x4 = reinterpret_cast<const float4 *>(x);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int stride = gridDim.x * blockDim.x;
    float sum = i < n % 4 ? x[n - 1 - i] : 0.0f;
    int k = i;
    for (; k + 3 * stride < n / 4; k += 4 * stride) {
        float4 a = x4[k], b = x4[k + stride], c = x4[k + 2 * stride], d = x4[k + 3 * stride];
        sum += (a.x + a.y) + (a.z + a.w) + (b.x + b.y) + (b.z + b.w);
        sum += (c.x + c.y) + (c.z + c.w) + (d.x + d.y) + (d.z + d.w);
    }
    for (; k < n / 4; k += stride) {
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

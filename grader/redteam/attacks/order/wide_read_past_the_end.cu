// tries: reads four numbers at once, the last of them past the end
// stopped by: accesses are checked as a whole
// exercise: 10_warp_reduction/sum_v6
// where: both
// expect: refused

__global__ void reduce_v6(const float *x, float *out, int n) {
    float sum = 0.0f;
    const float4* x4 = reinterpret_cast<const float4*>(x);
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n + 3) / 4; i += gridDim.x * blockDim.x) {
        const float4 v = x4[i];
        sum += v.x + (4 * i + 1 < n ? v.y : 0.0f) + (4 * i + 2 < n ? v.z : 0.0f) + (4 * i + 3 < n ? v.w : 0.0f);
    }
    for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
    if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}

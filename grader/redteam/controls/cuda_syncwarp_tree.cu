// tries: a warp's tree in shared memory with __syncwarp, beside votes; vectors that several threads store alike; __ldg
// exercise: 10_warp_reduction/sum_v6
// expect: accepted
__global__ void __launch_bounds__(256, 2) reduce_v6(const float* __restrict__ x, float* out, int n) {
    __shared__ float parts[8][32];
    __shared__ float4 weight;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    weight = make_float4(1.0f, 1.0f, 1.0f, 1.0f);  // the same by all
    __syncthreads();
    const float4* quads = reinterpret_cast<const float4*>(x);
    float sum = 0.0f;
    for (int q = blockIdx.x * blockDim.x + threadIdx.x; q < n / 4; q += gridDim.x * blockDim.x) {
        const float4 v = __ldg(quads + q);
        sum += (v.x + v.y) + (v.z + v.w);
    }
    const int rest = n / 4 * 4 + blockIdx.x * blockDim.x + threadIdx.x;
    if (rest < n) sum += __ldg(x + rest) * weight.x;
    parts[warp][lane] = sum;
    __syncwarp();
    for (int s = 16; s > 0; s /= 2) {
        const bool adds = __ballot_sync(0xffffffff, lane < s) >> lane & 1;
        if (adds) parts[warp][lane] += parts[warp][lane + s];
        __syncwarp();
    }
    if (lane == 0) atomicAdd(out, parts[warp][0]);
}

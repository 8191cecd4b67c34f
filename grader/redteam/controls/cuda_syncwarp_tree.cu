// tries: a warp's tree in shared memory with __syncwarp, beside votes; vectors that several threads store alike; __ldg
// exercise: 10_reduction/sum_v1
// expect: accepted
__global__ void __launch_bounds__(256, 2) reduce_v1(const float* __restrict__ x, float* partial, int n) {
    __shared__ float parts[8][32];
    __shared__ float4 weight;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    weight = make_float4(1.0f, 1.0f, 1.0f, 1.0f);  // the same by all
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    parts[warp][lane] = i < n ? __ldg(x + i) * weight.x : 0.0f;
    __syncwarp();
    for (int s = 16; s > 0; s /= 2) {
        const bool adds = __ballot_sync(0xffffffff, lane < s) >> lane & 1;
        if (adds) parts[warp][lane] += parts[warp][lane + s];
        __syncwarp();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0.0f;
        for (int w = 0; w < 8; w++) total += parts[w][0];
        partial[blockIdx.x] = total;
    }
}

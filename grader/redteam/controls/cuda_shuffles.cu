// tries: every shuffle and vote, with widths, in place of shared memory
// exercise: 10_warp_reduction/sum_v5
// expect: accepted
#define FULL_MASK 0xffffffff

__global__ void reduce_v5(const float *x, float *partial, int n) {
    __shared__ float sums[32];
    int t = threadIdx.x, lane = t & (warpSize - 1), wid = t / warpSize;
    int i = blockIdx.x * 2 * blockDim.x + t;
    float a = i < n ? x[i] : 0.0f, b = i + blockDim.x < n ? x[i + blockDim.x] : 0.0f;
    float v = a + b;
    v += __shfl_xor_sync(FULL_MASK, v, 16);
    v += __shfl_down_sync(FULL_MASK, v, 8, 16);
    v += __shfl_down_sync(FULL_MASK, v, 4, 8);
    // the first four lanes hold four parts: an inclusive scan of them
    for (int d = 1; d < 4; d *= 2) {
        float left = __shfl_up_sync(FULL_MASK, v, d, 4);
        if ((lane & 3) >= d) v += left;
    }
    v = __shfl_sync(FULL_MASK, v, 3, 4);
    unsigned holders = __ballot_sync(FULL_MASK, lane == 0);
    if (lane == __ffs(holders) - 1) sums[wid] = v;
    __syncthreads();
    if (wid == 0 && __all_sync(FULL_MASK, wid == 0)) {
        v = lane < blockDim.x / warpSize ? sums[lane] : 0.0f;
#pragma unroll
        for (int mask = 16; mask > 0; mask >>= 1) v += __shfl_xor_sync(FULL_MASK, v, mask);
        if (__any_sync(FULL_MASK, lane == 0) && lane == 0) partial[blockIdx.x] = v;
    }
}

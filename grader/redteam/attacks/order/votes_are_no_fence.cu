// tries: lets ballots and shuffles stand between the steps of a tree in shared memory
// stopped by: of a warp's collectives only __syncwarp and the groups' sync order memory
// exercise: 10_warp_reduction/sum_v6
// where: both
// expect: refused

__global__ void reduce_v6(const float *x, float *out, int n) {
    __shared__ float parts[256];
    const int t = threadIdx.x, lane = t % 32;
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    parts[t] = sum;
    for (int s = 16; s > 0; s /= 2) {
        const unsigned lower = __ballot_sync(0xffffffff, lane < s);  // an instruction of the warp, and no fence
        if (lower >> lane & 1) parts[t] += parts[t + s];
        sum = __shfl_sync(0xffffffff, sum, lane);
    }
    if (lane == 0) atomicAdd(out, parts[t]);
}

// tries: meets in a warp more often than 16 bits can count, then reads what other lanes have yet to write
// stopped by: a warp's times are counted anew before they come to an end
// exercise: 10_warp_reduction/sum_v6
// where: both
// expect: refused

__global__ void reduce_v6(const float *x, float *out, int n) {
    __shared__ float parts[256];
    const int t = threadIdx.x, lane = t % 32;
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    if (blockIdx.x == 0 && t < 32)
        for (int k = 0; k < 66000; k++) __syncwarp();
    parts[t] = sum;
    if (blockIdx.x || t >= 32) __syncwarp();  // but not there
    if (lane == 0) {
        for (int k = 0; k < (blockIdx.x || t ? 0 : 400); k++) __nanosleep(20);  // the others go first here
        float total = 0.0f;
        for (int k = 0; k < 32; k++) total += parts[t + k];
        atomicAdd(out, total);
    }
}

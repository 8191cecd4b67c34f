// tries: hands partial sums from thread to thread through global memory, and reads them through the read-only cache
// stopped by: what a launch writes, none of its threads may load by __ldg
// exercise: 10_warp_reduction/sum_v6
// where: both
// expect: refused

__device__ float parts[1 << 20];

__global__ void reduce_v6(const float *x, float *out, int n) {
    float *mine = parts + blockIdx.x * blockDim.x;
    const int t = threadIdx.x;
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    mine[t] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (t < s) sum += __ldg(mine + t + s);
        __syncthreads();
        mine[t] = sum;
        __syncthreads();
    }
    if (t == 0) atomicAdd(out, sum);
}

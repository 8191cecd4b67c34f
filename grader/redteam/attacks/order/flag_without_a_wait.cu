// tries: the last block adds what the others published; it reads their flag and does not wait
// stopped by: a fence, a lock or volatile excuses only what it orders
// exercise: 10_warp_reduction/sum_v6
// where: both
// expect: refused

__device__ float partial[4096];
__device__ int published;
__global__ void reduce_v6(const float *x, float *out, int n) {
    __shared__ float warps[32];
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; ++w) sum += warps[w];
        partial[blockIdx.x] = sum;
        __threadfence();
        atomicAdd(&published, 1);
        if (blockIdx.x == gridDim.x - 1) {
            atomicAdd(&published, 0);
            float total = 0.0f;
            for (int b = 0; b < gridDim.x; ++b) total += partial[b];
            out[0] = total;
        }
    }
}

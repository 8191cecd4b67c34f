// tries: reads the total with one atomic and writes it with another
// stopped by: two atomics are not one: the value read may be old
// exercise: 10_warp_reduction/sum_v6
// where: both
// expect: refused

__global__ void reduce_v6(const float *x, float *out, int n) {
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
    if (threadIdx.x % 32 == 0) {
        const float before = atomicAdd(out, 0.0f);
        atomicExch(out, before + sum);
    }
}

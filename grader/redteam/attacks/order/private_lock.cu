// tries: takes a lock that nobody else knows, and adds without an atomic
// stopped by: a fence, a lock or volatile excuses only what it orders
// exercise: 10_warp_reduction/sum_v6
// where: both
// expect: refused

__global__ void reduce_v6(const float *x, float *out, int n) {
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
    int mine = 0;
    atomicExch(&mine, 1);
    if (threadIdx.x % 32 == 0) out[0] += sum;
    atomicExch(&mine, 0);
}

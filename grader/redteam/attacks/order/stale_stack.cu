// tries: hands a running total from thread to thread in a local variable that nothing initialized
// stopped by: local memory is filled with poison for each thread
// exercise: 10_warp_reduction/sum_v6
// where: both
// expect: refused

__global__ void reduce_v6(const float *x, float *out, int n) {
    volatile float kept[16384];
    if (threadIdx.x == 0 && blockIdx.x == 0) kept[3] = 0.0f;
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    kept[3] = kept[3] + sum;
    if (threadIdx.x == blockDim.x - 1 && blockIdx.x == gridDim.x - 1) out[0] = kept[3];
}

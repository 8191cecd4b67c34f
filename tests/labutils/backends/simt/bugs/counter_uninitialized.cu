// expect: uninitialized-shared count
__global__ void counter_uninitialized(const float* x, float* y) {
    __shared__ int count;
    __syncthreads();
    if (threadIdx.x == 5) count += 1;    // BUG
    __syncthreads();
    y[threadIdx.x] = count;
}

__global__ void print(const float* x) {
    if (threadIdx.x < 2) printf("block %d thread %d: %.2f\n", blockIdx.x, threadIdx.x, x[threadIdx.x]);
}

// expect: race sum
__global__ void lost_update_shared(const float* x, float* y) {
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    sum += x[threadIdx.x];    // BUG
    __syncthreads();
    y[threadIdx.x] = sum;
}

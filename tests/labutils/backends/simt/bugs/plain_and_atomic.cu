// expect: missing-syncthreads count
__global__ void plain_and_atomic(int* count) {
    if (threadIdx.x == 0) *count = 7;    // BUG
    atomicAdd(count, 1);    // BUG
}

// expect: endless-loop
__device__ int lock = 0;
__global__ void endless_lock(float* x) {
    while (atomicCAS(&lock, 0, 1) != 0) {    // BUG
    }
    x[0] += 1;
}

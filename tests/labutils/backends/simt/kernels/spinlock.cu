__device__ int lock = 0;

__global__ void spinlock(float* x) {
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(&lock, 0, 1) != 0) {
        }
        x[0] += 1;
        __threadfence();
        atomicExch(&lock, 0);
    }
}

// one warp waits for another's word: a volatile flag and fences
__global__ void flag_wait(volatile int* flag, volatile int* data, int* out) {
    if (threadIdx.x == 0) {
        while (*flag == 0) __nanosleep(20);
        __threadfence();
        out[0] = *data;
    }
    if (threadIdx.x == 32) {
        *data = 42;
        __threadfence();
        *flag = 1;
    }
}

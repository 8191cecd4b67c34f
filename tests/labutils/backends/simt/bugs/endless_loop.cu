// expect: endless-loop
__global__ void endless_loop(float* x, int n) {
    int i = threadIdx.x;
    while (i < n) x[i] += 1;    // BUG
}

// expect: endless-loop
__global__ void endless_arithmetic(int* x, int n) {
    int i = threadIdx.x;
    while (i != n + 1) i = (i * 5 + 2) % 64;    // BUG
    x[threadIdx.x] = i;
}

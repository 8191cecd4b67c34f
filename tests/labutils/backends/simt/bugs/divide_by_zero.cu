// expect: crash
__global__ void divide_by_zero(int* x, int n) {
    x[threadIdx.x] = 100 / (x[threadIdx.x] - n);    // BUG
}

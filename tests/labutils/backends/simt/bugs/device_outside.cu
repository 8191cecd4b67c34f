// expect: out-of-bounds table 8
__device__ int table[8];
__global__ void device_outside(int* y, int n) {
    int* p = table;
    p[threadIdx.x] = n;    // BUG
    y[threadIdx.x] = n;
}

// expect: race bins
__global__ void lost_update(const int* x, int* bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) bins[x[i]] += 1;    // BUG
}

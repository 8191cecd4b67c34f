// expect: race x
__global__ void in_place_stencil(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1)
        x[i] = 0.5f * (x[i - 1] + x[i + 1]);    // BUG
}

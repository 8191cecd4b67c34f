// expect: tail-unmasked
// Four rows for each thread, whether they exist or not.
__global__ void row_scale_kernel(const float* __restrict__ x, const float* __restrict__ scale,
                                 float* __restrict__ out, int M, int N) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= N) return;
    for (int k = 0; k < 4; k++) {
        int row = (blockIdx.y + k * gridDim.y) * blockDim.y + threadIdx.y;
        out[row * N + column] = scale[row] * x[row * N + column];
    }
}

// expect: accepted
// One running index over the whole matrix, row by division.
__global__ void row_scale_kernel(const float* __restrict__ x, const float* __restrict__ scale,
                                 float* __restrict__ out, int M, int N) {
    int width = gridDim.x * blockDim.x;
    int thread = (blockIdx.y * blockDim.y + threadIdx.y) * width + blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = thread; i < M * N; i += gridDim.y * blockDim.y * width) out[i] = scale[i / N] * x[i];
}

// expect: accepted
// Pointers that step from row to row; another order of the rows.
__global__ void row_scale_kernel(const float* __restrict__ x, const float* __restrict__ scale,
                                 float* __restrict__ out, int M, int N) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= N) return;
    int rows = gridDim.y * blockDim.y;
    int first = blockIdx.y * blockDim.y + threadIdx.y;
    if (first >= M) return;
    int last = first + (M - 1 - first) / rows * rows;
    const float* from = x + last * N + column;
    float* to = out + last * N + column;
    for (int row = last; row >= 0; row -= rows, from -= rows * N, to -= rows * N) *to = *from * scale[row];
}

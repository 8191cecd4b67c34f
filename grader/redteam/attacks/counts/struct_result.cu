// tries: stores each element eight times more, as the struct that a function returns
// stopped by: every access counts
// exercise: 07_elementwise_cuda/row_scale
// where: both
// expect: no undue points
// due: 2

struct One {
    float v;
};
__device__ __noinline__ One put(float v) { return {v}; }
__global__ void row_scale_kernel(const float* __restrict__ x, const float* __restrict__ scale,
                                 float* __restrict__ out, int M, int N) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= N) return;
    int rows = gridDim.y * blockDim.y;
    for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < M; row += rows) {
        for (int again = 0; again < 8; again++)
            *reinterpret_cast<One*>(out + row * N + column) = put(again * x[row * N + column]);
        out[row * N + column] = scale[row] * x[row * N + column];
    }
}

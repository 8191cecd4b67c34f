// tries: a function that computes five numbers and returns them as a struct
// exercise: 07_elementwise_cuda/row_scale
// expect: accepted
struct Place { int column, row, rows, first, stride; };

__device__ Place place_of(int N, int blocks) {
    Place p;
    p.column = blockIdx.x * blockDim.x + threadIdx.x;
    p.row = blockIdx.y * blockDim.y + threadIdx.y;
    p.rows = blocks * blockDim.y;
    p.first = p.row * N + p.column;
    p.stride = p.rows * N;
    return p;
}

__global__ void row_scale_kernel(const float* __restrict__ x, const float* __restrict__ scale,
                                 float* __restrict__ out, int M, int N) {
    Place p = place_of(N, gridDim.y);
    if (p.column >= N || p.row >= M) return;
    do {
        out[p.first] = scale[p.row] * x[p.first];
        p.first += p.stride;
        p.row += p.rows;
    } while (p.row < M);
}

// expect: accepted
// marks: 4
// A block has a piece of its own and goes round in that.
__global__ void vector_add_kernel(const float* __restrict__ x, const float* __restrict__ y,
                                  float* __restrict__ out, int n) {
    int each = (n + gridDim.x - 1) / gridDim.x;
    each = (each + 31) / 32 * 32;
    int first = blockIdx.x * each, end = min(first + each, n);
    for (int i = first + threadIdx.x; i < end; i += blockDim.x) out[i] = x[i] + y[i];
}

// tries: loads and stores with cache hints, and unsigned sizes
// exercise: 07_elementwise_cuda/row_scale
// expect: accepted
typedef unsigned int uint;
using real = float;

__global__ void row_scale_kernel(const real* __restrict__ x, const real* __restrict__ scale,
                                 real* __restrict__ out, int M, int N) {
    const uint col = blockDim.x * blockIdx.x + threadIdx.x;
    if (col >= uint(N)) return;
    for (uint row = blockDim.y * blockIdx.y + threadIdx.y; row < uint(M); row += blockDim.y * gridDim.y) {
        const real s = __ldg(&scale[row]);
        const real v = __ldcs(x + row * N + col);
        __stcs(out + row * N + col, __fmul_rn(s, v));
    }
}

// tries: a header of libcu++'s that the emulator does not have
// exercise: 11_softmax/warp_softmax
// expect: accepted
// without a gpu: needs-gpu
#include <cuda/std/limits>

__global__ void warp_softmax_kernel(const float *x, float *out, int M, int N) {
    const int lane = threadIdx.x % 32, row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= M) return;
    float v[32], m = -cuda::std::numeric_limits<float>::infinity(), total = 0.0f;
#pragma unroll
    for (int k = 0; k < 32; k++) {
        v[k] = lane + 32 * k < N ? x[row * N + lane + 32 * k] : -cuda::std::numeric_limits<float>::infinity();
        m = fmaxf(m, v[k]);
    }
    for (int s = 16; s > 0; s /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, s));
#pragma unroll
    for (int k = 0; k < 32; k++) total += v[k] = expf(v[k] - m);
    for (int s = 16; s > 0; s /= 2) total += __shfl_xor_sync(~0u, total, s);
#pragma unroll
    for (int k = 0; k < 32; k++)
        if (lane + 32 * k < N) out[row * N + lane + 32 * k] = v[k] / total;
}

#include <cuda_fp16.h>

__global__ void half_math(const half* x, half* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    half v = x[i];
    if (__hlt(v, __float2half(0.0f))) v = __hneg(v);
    v = hsqrt(v) + half(1.0f);
    v *= __float2half(0.5f);
    y[i] = v > half(1.5f) ? half(1.5f) : v;
}

// expect: precision
// Rounds to half precision on the way.
#include <cuda_fp16.h>
__global__ void fade_kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * __half2float(__float2half((float)i / n));
}

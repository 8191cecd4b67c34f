#include <cuda_fp16.h>

__global__ void half_axpy(__half a, const __half2* x, __half2* y, int n2) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n2) y[i] = __hfma2(__half2half2(a), x[i], y[i]);
}

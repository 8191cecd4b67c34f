// tries: vector loads by the macros that many repositories have
// exercise: 07_elementwise_cuda/gelu
// expect: accepted
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define WARP_SIZE 32
#define INT4(value) (reinterpret_cast<int4 *>(&(value))[0])
#define FLOAT4(value) (reinterpret_cast<float4 *>(&(value))[0])
#define CFLOAT4(value) (reinterpret_cast<const float4 *>(&(value))[0])
#define MAX_EXP_F32 88.3762626647949f
#define SQRT_2_PI M_SQRT2 * M_2_SQRTPI * 0.5f
#ifndef M_2_SQRTPI
#define M_2_SQRTPI 1.12837916709551257390
#endif
#ifndef M_SQRT2
#define M_SQRT2 1.41421356237309504880
#endif

__inline__ __device__ float gelu_tanh_approximate(float x) {
    return 0.5f * x * (1.0f + tanhf(float(SQRT_2_PI) * (x + 0.044715f * x * x * x)));
}

__global__ void gelu_kernel(const float* __restrict__ x, float* __restrict__ out, int groups, int n) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    for (int g = idx; g < groups; g += threads) {
        float4 reg_x = CFLOAT4(x[4 * g]);
        float4 reg_y;
        reg_y.x = gelu_tanh_approximate(reg_x.x);
        reg_y.y = gelu_tanh_approximate(reg_x.y);
        reg_y.z = gelu_tanh_approximate(reg_x.z);
        reg_y.w = gelu_tanh_approximate(reg_x.w);
        FLOAT4(out[4 * g]) = reg_y;
    }
    for (int i = 4 * groups + idx; i < n; i += threads) out[i] = gelu_tanh_approximate(x[i]);
}

// tries: operators for float4, as in NVIDIA's helper_math.h, and a test of the pointers' alignment in the kernel
// exercise: 07_elementwise_cuda/vector_add
// expect: accepted
#include <cstdint>
inline __host__ __device__ float4 operator+(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
inline __device__ void operator+=(float4 &a, float4 b) { a = a + b; }

__device__ __forceinline__ bool aligned16(const void* p) { return (reinterpret_cast<uintptr_t>(p) & 15) == 0; }

__global__ void vector_add_kernel(const float* __restrict__ x, const float* __restrict__ y,
                                  float* __restrict__ out, int n) {
    const int tid = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    if (aligned16(x) && aligned16(y) && aligned16(out) && n >= (1 << 28)) {
        for (int i = tid; i < n / 4; i += step) {
            float4 v = reinterpret_cast<const float4*>(x)[i];
            v += reinterpret_cast<const float4*>(y)[i];
            reinterpret_cast<float4*>(out)[i] = v;
        }
        for (int i = n / 4 * 4 + tid; i < n; i += step) out[i] = x[i] + y[i];
    } else {
        for (int i = tid; i < n; i += step) out[i] = x[i] + y[i];
    }
}

// expect: accepted
// marks: 4
// The tail first, and fast exp and division.
__device__ float gelu_tanh(float x) {
    float a = 0.7978845608f * (x + 0.044715f * x * x * x);
    return __fdividef(x, 1.0f + __expf(-2.0f * a));
}

__global__ void gelu_kernel(const float* __restrict__ x, float* __restrict__ out, int groups, int n) {
    const float4* x4 = reinterpret_cast<const float4*>(x);
    float4* out4 = reinterpret_cast<float4*>(out);
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    for (int i = 4 * groups + first; i < n; i += threads) out[i] = gelu_tanh(x[i]);
    for (int g = first; g < groups; g += threads) {
        float4 v = x4[g];
        out4[g] = make_float4(gelu_tanh(v.x), gelu_tanh(v.y), gelu_tanh(v.z), gelu_tanh(v.w));
    }
}

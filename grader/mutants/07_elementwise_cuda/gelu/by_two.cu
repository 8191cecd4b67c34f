// expect: accepted
// marks: 2
// Right, but groups of two.
__device__ float gelu_tanh(float x) {
    float a = 0.7978845608f * (x + 0.044715f * x * x * x);
    return x / (1.0f + expf(-2.0f * a));
}

__global__ void gelu_kernel(const float* __restrict__ x, float* __restrict__ out, int groups, int n) {
    const float4* x4 = reinterpret_cast<const float4*>(x);
    float4* out4 = reinterpret_cast<float4*>(out);
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    const float2* x2 = reinterpret_cast<const float2*>(x);
    float2* out2 = reinterpret_cast<float2*>(out);
    for (int g = first; g < 2 * groups; g += threads) out2[g] = make_float2(gelu_tanh(x2[g].x), gelu_tanh(x2[g].y));
    for (int i = 4 * groups + first; i < n; i += threads) out[i] = gelu_tanh(x[i]);
}

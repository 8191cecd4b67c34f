// expect: accepted
// marks: 3
// Loads by four, but stores one by one.
__device__ float gelu_tanh(float x) {
    float a = 0.7978845608f * (x + 0.044715f * x * x * x);
    return x / (1.0f + expf(-2.0f * a));
}

__global__ void gelu_kernel(const float* __restrict__ x, float* __restrict__ out, int groups, int n) {
    const float4* x4 = reinterpret_cast<const float4*>(x);
    float4* out4 = reinterpret_cast<float4*>(out);
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    for (int g = first; g < groups; g += threads) {
        float4 v = x4[g];
        out[4 * g] = gelu_tanh(v.x);
        out[4 * g + 1] = gelu_tanh(v.y);
        out[4 * g + 2] = gelu_tanh(v.z);
        out[4 * g + 3] = gelu_tanh(v.w);
    }
    for (int i = 4 * groups + first; i < n; i += threads) out[i] = gelu_tanh(x[i]);
}

// expect: accepted
// marks: 4
// The function changes a value in place; a thread of the first block does the tail.
__device__ void gelu_tanh(float& x) {
    float a = 0.7978845608f * (x + 0.044715f * x * x * x);
    x = x / (1.0f + expf(-2.0f * a));
}

__global__ void gelu_kernel(const float* __restrict__ x, float* __restrict__ out, int groups, int n) {
    const float4* x4 = reinterpret_cast<const float4*>(x);
    float4* out4 = reinterpret_cast<float4*>(out);
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    for (int g = first; g < groups; g += threads) {
        float4 v = x4[g];
        float* part = &v.x;
        for (int k = 0; k < 4; k++) gelu_tanh(part[k]);
        out4[g] = v;
    }
    for (int i = 4 * groups + first; i < n; i += threads) {
        float v = x[i];
        gelu_tanh(v);
        out[i] = v;
    }
}

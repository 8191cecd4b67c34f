// tries: copies an aligned struct of its own into a local variable and back, in place of float4
// exercise: 07_elementwise_cuda/gelu
// expect: accepted
__device__ float gelu_tanh(float x) {
    float a = 0.7978845608f * (x + 0.044715f * x * x * x);
    return x / (1.0f + expf(-2.0f * a));
}
struct alignas(16) Pack { float a, b, c, d; };

__global__ void gelu_kernel(const float* __restrict__ x, float* __restrict__ out, int groups, int n) {
    const Pack* x4 = reinterpret_cast<const Pack*>(x);
    Pack* out4 = reinterpret_cast<Pack*>(out);
    int first = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (int g = first; g < groups; g += threads) {
        Pack p = x4[g];
        p.a = gelu_tanh(p.a), p.b = gelu_tanh(p.b), p.c = gelu_tanh(p.c), p.d = gelu_tanh(p.d);
        out4[g] = p;
    }
    for (int i = 4 * groups + first; i < n; i += threads) out[i] = gelu_tanh(x[i]);
}

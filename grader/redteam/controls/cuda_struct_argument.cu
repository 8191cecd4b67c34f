// tries: a function that takes and returns an aligned struct of its own, from memory to memory
// exercise: 07_elementwise_cuda/gelu
// expect: accepted
__device__ float gelu_tanh(float x) {
    float a = 0.7978845608f * (x + 0.044715f * x * x * x);
    return x / (1.0f + expf(-2.0f * a));
}
struct alignas(16) Pack { float a, b, c, d; };
__device__ Pack gelu4(Pack p) { return {gelu_tanh(p.a), gelu_tanh(p.b), gelu_tanh(p.c), gelu_tanh(p.d)}; }

__global__ void gelu_kernel(const float* __restrict__ x, float* __restrict__ out, int groups, int n) {
    const Pack* x4 = reinterpret_cast<const Pack*>(x);
    Pack* out4 = reinterpret_cast<Pack*>(out);
    int first = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (int g = first; g < groups; g += threads) out4[g] = gelu4(x4[g]);
    for (int i = 4 * groups + first; i < n; i += threads) out[i] = gelu_tanh(x[i]);
}

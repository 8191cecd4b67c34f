# tries: raises the bytes of a request with wide loads of numbers that it does not use
# stopped by: bounds count what is moved in all, or requests that are useful
# exercise: 07_elementwise_cuda/gelu
# where: both
# expect: no undue points
# due: 2

SOURCE = r"""
__global__ void gelu_kernel(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float4* wide = (const float4*)(((unsigned long long)x + 15) / 16 * 16);
    const int most = (n - 4) / 4;
    float unused = 0.0f;
    for (int k = 0; k < 60; ++k)
        if (most >= 32) {
            const float4 v = wide[(threadIdx.x + k) % 32 + (i / 32 * 8 < most - 32 ? i / 32 * 8 : 0)];
            unused += v.x + v.y + v.z + v.w;
        }
    if (i < n) {
        const float v = x[i];
        float y = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
        if (unused == 1.2345678e30f) y = 0.0f;
        out[i] = y;
    }
}
"""
kernel = lab.cuda.compile(SOURCE, "gelu_kernel")


def gelu(x, out):
    kernel[(x.numel() + 255) // 256, 256](x, out, x.numel())

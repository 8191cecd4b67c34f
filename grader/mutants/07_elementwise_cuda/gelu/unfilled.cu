// expect: unfilled
// The stub as it is released.
__device__ float gelu_tanh(float x) {
    // YOUR CODE HERE (about 2 lines)
    static_assert(false, "gelu_tanh is not written yet");
}

__global__ void gelu_kernel(const float* __restrict__ x, float* __restrict__ out, int groups, int n) {
    const float4* x4 = reinterpret_cast<const float4*>(x);
    float4* out4 = reinterpret_cast<float4*>(out);
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    // YOUR CODE HERE (about 7 lines)
    static_assert(false, "gelu_kernel is not written yet");
}

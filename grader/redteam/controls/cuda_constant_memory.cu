// tries: constants in constant memory, in arrays and structs, and device variables
// exercise: 07_elementwise_cuda/gelu
// expect: accepted
struct Coefficients { float root, cubic; };
__constant__ Coefficients kTanh = {0.7978845608f, 0.044715f};
__constant__ float kHalf[2] = {0.5f, 1.0f};
__device__ const int kWidth = 4;

__device__ float gelu_one(float x) {
    const float u = kTanh.root * x * fmaf(kTanh.cubic * x, x, kHalf[1]);
    const float e = expf(-2.0f * fabsf(u));
    const float t = copysignf((kHalf[1] - e) / (kHalf[1] + e), u);
    return kHalf[0] * x * (kHalf[1] + t);
}

__global__ void gelu_kernel(const float* __restrict__ x, float* __restrict__ out, int groups, int n) {
    const int id = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
    for (int g = id; g < groups; g += all) {
        const float4 in = ((const float4*)x)[g];
        ((float4*)out)[g] = {gelu_one(in.x), gelu_one(in.y), gelu_one(in.z), gelu_one(in.w)};
    }
    for (int i = kWidth * groups + id; i < n; i += all) out[i] = gelu_one(x[i]);
}

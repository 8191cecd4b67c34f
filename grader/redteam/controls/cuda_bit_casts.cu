// tries: bits of floats by a union, by intrinsics and by a cast of a reference
// exercise: 02_execution_model/diverge
// expect: accepted
union Bits { float f; unsigned int u; };

__device__ float size_of(float v) {
    Bits b;
    b.f = v;
    b.u &= 0x7fffffffu;
    return b.f;
}
__device__ float left_clip(float v) {
    for (int k = 0; k < 16; k++) v = v / (1.0f + size_of(v));
    return v;
}
__device__ float right_clip(float v) {
    for (int k = 0; k < 16; k++) {
        const float square = __uint_as_float(__float_as_uint(v) & 0x7fffffff) * __int_as_float(__float_as_int(v) & 0x7fffffff);
        v = v / sqrtf(1.0f + square);
    }
    return v;
}

__global__ void by_warp_kernel(const float* x, float* out, int n) {
    const unsigned half = blockDim.x >> 1;
    const bool right = threadIdx.x >= half;
    const unsigned i = blockIdx.x * blockDim.x + 2u * (right ? threadIdx.x - half : threadIdx.x) + right;
    if (i >= n) return;
    out[i] = right ? right_clip(x[i]) : left_clip(x[i]);
}

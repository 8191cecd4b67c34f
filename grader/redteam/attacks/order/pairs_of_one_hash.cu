// tries: half a block stores wrong pairs whose words fold to that of the right pair, which the other half stores
// stopped by: every four bytes of a store are compared with what was stored there before
// exercise: 07_elementwise_cuda/vector_add
// where: both
// expect: refused

__global__ void vector_add_kernel(const float *x, const float *y, float *out, int n) {
    const int t = threadIdx.x % 128;
    const bool right = threadIdx.x >= 128;
    for (int first = blockIdx.x * 1024; first < min(n, blockIdx.x * 1024 + 1024); first += 256) {
        const int i = first + 2 * t;
        if (i + 1 < n && (size_t)(out + i) % 8 == 0) {
            const unsigned a = __float_as_uint(x[i] + y[i]), b = __float_as_uint(x[i + 1] + y[i + 1]);
            *(uint2 *)(out + i) = right ? make_uint2(a, b) : make_uint2(0, (a << 7 | a >> 25) ^ b);
        } else if (right) {
            if (i < n) out[i] = x[i] + y[i];
            if (i + 1 < n) out[i + 1] = x[i + 1] + y[i + 1];
        }
    }
}

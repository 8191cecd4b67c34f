// tries: two warps store the same wrong number, and one of them the right one behind it
// stopped by: of those who stored the same to one place, two are remembered
// exercise: 07_elementwise_cuda/vector_add
// where: both
// expect: refused

__global__ void vector_add_kernel(const float *x, const float *y, float *out, int n) {
    const int t = threadIdx.x % 128;
    for (int i = blockIdx.x * 1024 + t; i < min(n, blockIdx.x * 1024 + 1024); i += 128) {
        out[i] = -1.0f;
        if (threadIdx.x >= 128) out[i] = x[i] + y[i];
    }
}

// tries: size_t everywhere, fmaf, restricted pointers advanced in the loop
// exercise: 15_matmul_cuda/naive
// expect: accepted
__global__ void matmul_naive(const float *a, const float *b, float *c, int M, int N, int K) {
    const size_t col = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    const size_t row = blockIdx.y * size_t(blockDim.y) + threadIdx.y;
    if (row >= (size_t)M || col >= (size_t)N) return;
    const float *__restrict__ left = a + row * K;
    const float *__restrict__ right = b + col;
    float acc = 0.f;
    int k = K;
#pragma unroll 4
    while (k-- > 0) {
        acc = fmaf(__ldg(left++), __ldg(right), acc);
        right += N;
    }
    c[row * (size_t)N + col] = acc;
}

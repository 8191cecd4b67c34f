// tries: stores bit-fields, which the compiler may not instrument
// stopped by: every access counts
// exercise: 08_coalescing/transpose
// where: both
// expect: no undue points
// due: 3

struct Word {
    unsigned bits : 31, sign : 1;
};
__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    for (int k = 0; k < 32; k += 8) {
        const int m = blockIdx.y * 32 + threadIdx.y + k, n = blockIdx.x * 32 + threadIdx.x;
        if (m < M && n < N) reinterpret_cast<Word*>(&out[n * M + m])->bits = __float_as_uint(x[m * N + n]) & 0x7fffffff,
            reinterpret_cast<Word*>(&out[n * M + m])->sign = __float_as_uint(x[m * N + n]) >> 31;
    }
}

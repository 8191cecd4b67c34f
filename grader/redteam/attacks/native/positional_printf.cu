// tries: stores byte by byte through printf's %3$hhn, which nothing records
// stopped by: printf on a GPU has no %n; the emulator reads formats as it does
// exercise: 08_coalescing/transpose
// where: both
// expect: no undue points
// due: 3

__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    for (int k = 0; k < 32; k += 8) {
        const int m = blockIdx.y * 32 + threadIdx.y + k, n = blockIdx.x * 32 + threadIdx.x;
        if (m < M && n < N) {
            const unsigned bits = __float_as_uint(x[m * N + n]);
            for (int k = 0; k < 4; ++k) {
                const int byte = (bits >> (8 * k)) & 255;
                printf("%1$*2$c%3$hhn", 'x', byte ? byte : 256, (signed char*)(out + n * M + m) + k);
            }
        }
    }
}

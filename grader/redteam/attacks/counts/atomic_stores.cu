// tries: stores with atomicExch, which is no store to the counters
// stopped by: every access counts, atomics as well; a bound whose denominator is 0 is not met
// exercise: 08_coalescing/transpose
// where: both
// expect: no undue points
// due: 3

__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    for (int k = 0; k < 32; k += 8) {
        const int m = blockIdx.y * 32 + threadIdx.y + k, n = blockIdx.x * 32 + threadIdx.x;
        if (m < M && n < N) atomicExch(&out[n * M + m], x[m * N + n]);
    }
}

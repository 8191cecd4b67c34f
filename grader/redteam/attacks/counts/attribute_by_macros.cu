// tries: switches the record of accesses off with an attribute whose brackets are macros
// stopped by: attributes are looked for after the preprocessor
// exercise: 08_coalescing/transpose
// where: both
// expect: no undue points
// due: 3

#define OPEN [
#define CLOSE ]
#define UNSEEN OPEN OPEN gnu::no_sanitize_thread CLOSE CLOSE
UNSEEN __noinline__ void put(float* to, float value) { *to = value; }
__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    for (int k = 0; k < 32; k += 8) {
        const int m = blockIdx.y * 32 + threadIdx.y + k, n = blockIdx.x * 32 + threadIdx.x;
        if (m < M && n < N) put(&out[n * M + m], x[m * N + n]);
    }
}

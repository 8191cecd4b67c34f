// tries: transposes through an array of the device's own, so that the strided accesses are to no argument
// stopped by: every array in global memory counts, whoever declares it
// exercise: 08_coalescing/transpose
// where: both
// expect: no undue points
// due: 2

__device__ float between[256 * 192];

__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    for (int k = 0; k < 32; k += 8) {
        const int m = blockIdx.y * 32 + threadIdx.y + k, n = blockIdx.x * 32 + threadIdx.x;
        if (m < M && n < N) between[n * M + m] = x[m * N + n];
    }
    __syncthreads();
    for (int k = 0; k < 32; k += 8) {
        const int n = blockIdx.x * 32 + threadIdx.y + k, m = blockIdx.y * 32 + threadIdx.x;
        if (m < M && n < N) out[n * M + m] = between[n * M + m];
    }
}

// tries: keeps its shared memory in a function, where it is not counted as the kernel's
// stopped by: shared memory of every function that a kernel may call counts
// exercise: 09_shared_memory/transpose_swizzled
// where: both
// expect: no undue points
// due: 3

constexpr int TILE = 64, ROWS = 4, PITCH = TILE + 1;
__device__ float* pool() {
    __shared__ float all[TILE * PITCH];
    return all;
}
__global__ void transpose_swizzled_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    float* tile = pool();
    const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE;
    for (int k = 0; k < TILE; k += ROWS) {
        const int y = threadIdx.y + k, m = first_m + y, n = first_n + threadIdx.x;
        if (m < M && n < N) tile[y * PITCH + threadIdx.x] = x[m * N + n];
    }
    __syncthreads();
    for (int k = 0; k < TILE; k += ROWS) {
        const int y = threadIdx.y + k, n = first_n + y, m = first_m + threadIdx.x;
        if (n < N && m < M) out[n * M + m] = tile[threadIdx.x * PITCH + y];
    }
}

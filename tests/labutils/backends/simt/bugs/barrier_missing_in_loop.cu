// expect: missing-syncthreads As
#define TILE 16
__global__ void barrier_missing_in_loop(const float* A, float* C, int n) {
    __shared__ float As[TILE][TILE];
    float sum = 0;
    for (int k0 = 0; k0 < n; k0 += TILE) {
        As[threadIdx.y][threadIdx.x] = A[threadIdx.y * n + k0 + threadIdx.x];    // BUG
        __syncthreads();
        for (int k = 0; k < TILE; k++) sum += As[k][threadIdx.x];                // BUG
    }
    C[threadIdx.y * TILE + threadIdx.x] = sum;
}

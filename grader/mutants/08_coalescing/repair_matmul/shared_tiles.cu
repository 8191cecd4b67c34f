// expect: accepted
// Goes further than asked: tiles of a and b in shared memory.
__global__ void matmul_kernel(float* c, const float* a, const float* b, int M, int N, int K) {
    __shared__ float tile_a[32][32], tile_b[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    const int m = blockIdx.y * 32 + y, n = blockIdx.x * 32 + x;
    float sum = 0.0f;
    for (int first = 0; first < K; first += 32) {
        tile_a[y][x] = m < M && first + x < K ? a[m * K + first + x] : 0.0f;
        tile_b[y][x] = first + y < K && n < N ? b[(first + y) * N + n] : 0.0f;
        __syncthreads();
        for (int k = 0; k < 32; k++) sum += tile_a[y][k] * tile_b[k][x];
        __syncthreads();
    }
    if (m < M && n < N) c[m * N + n] = sum;
}

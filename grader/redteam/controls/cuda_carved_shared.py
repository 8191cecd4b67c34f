# tries: dynamic shared memory carved into arrays of several types
# exercise: 15_matmul_cuda/shared
# expect: accepted

SOURCE = r"""
__global__ void matmul_tiles(const float* A, const float* B, float* C, int M, int N, int K, int tile) {
    extern __shared__ __align__(16) unsigned char smem[];
    float* As = reinterpret_cast<float*>(smem);
    float* Bs = As + tile * tile;
    int* steps = (int*)&Bs[tile * tile];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * tile + ty, col = blockIdx.x * tile + tx;
    if (tx == 0 && ty == 0) *steps = (K + tile - 1) / tile;
    __syncthreads();
    float acc = 0.f;
    for (int s = 0; s < *steps; ++s) {
        const int ka = s * tile + tx, kb = s * tile + ty;
        As[ty * tile + tx] = (row < M && ka < K) ? A[row * K + ka] : 0.f;
        Bs[ty * tile + tx] = (kb < K && col < N) ? B[kb * N + col] : 0.f;
        __syncthreads();
        for (int k = 0; k < tile; ++k) acc += As[ty * tile + k] * Bs[k * tile + tx];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = acc;
}
"""
matmul_tiles = lab.cuda.compile(SOURCE, "matmul_tiles")
TILE = 32


def shared(a, b, c):
    (M, K), N = a.shape, b.shape[1]
    grid = (-(-N // TILE), -(-M // TILE))
    matmul_tiles[grid, (TILE, TILE), 2 * TILE * TILE * 4 + 16](a, b, c, M, N, K, TILE)

# tries: cuda::barrier from libcu++ in place of __syncthreads
# exercise: 08_coalescing/transpose
# expect: accepted

SOURCE = r"""
#include <cuda/barrier>

#define TILE_DIM 32
#define BLOCK_ROWS 8

__global__ void transpose_tiles(float* odata, const float* idata, int height, int width) {
    __shared__ float tile[TILE_DIM][TILE_DIM + 1];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    const int tid = threadIdx.y * blockDim.x + threadIdx.x;
    if (tid == 0) init(&bar, blockDim.x * blockDim.y);
    __syncthreads();

    int x = blockIdx.x * TILE_DIM + threadIdx.x;
    int y = blockIdx.y * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * width + x];
    bar.arrive_and_wait();
    x = blockIdx.y * TILE_DIM + threadIdx.x;
    y = blockIdx.x * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < height && y + j < width) odata[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}
"""
kernel = lab.cuda.compile(SOURCE, "transpose_tiles")


def transpose(x, out):
    M, N = x.shape
    kernel[((N + 31) // 32, (M + 31) // 32), (32, 8)](out, x, M, N)

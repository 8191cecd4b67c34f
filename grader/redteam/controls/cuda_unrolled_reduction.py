# tries: NVIDIA's reduction with a template on the block size, volatile shared memory and an unrolled last warp
# exercise: 10_reduction/sum_v1
# expect: accepted

import torch

SOURCE = r"""
template <unsigned int blockSize>
__device__ void warpReduce(volatile float* sdata, unsigned int tid) {
    if (blockSize >= 64) { float v = sdata[tid + 32]; __syncwarp(); sdata[tid] += v; __syncwarp(); }
    if (blockSize >= 32) { float v = sdata[tid + 16]; __syncwarp(); sdata[tid] += v; __syncwarp(); }
    if (blockSize >= 16) { float v = sdata[tid + 8]; __syncwarp(); sdata[tid] += v; __syncwarp(); }
    if (blockSize >= 8) { float v = sdata[tid + 4]; __syncwarp(); sdata[tid] += v; __syncwarp(); }
    if (blockSize >= 4) { float v = sdata[tid + 2]; __syncwarp(); sdata[tid] += v; __syncwarp(); }
    if (blockSize >= 2) { float v = sdata[tid + 1]; __syncwarp(); sdata[tid] += v; __syncwarp(); }
}

template <unsigned int blockSize, bool nIsPow2>
__global__ void reduce6(const float* g_idata, float* g_odata, unsigned int n) {
    extern __shared__ float sdata[];
    unsigned int tid = threadIdx.x;
    unsigned int i = blockIdx.x * (blockSize * 2) + tid;
    unsigned int gridSize = blockSize * 2 * gridDim.x;
    float mySum = 0;
    while (i < n) {
        mySum += g_idata[i];
        // ensure we don't read out of bounds -- this is optimized away for powerOf2 sized arrays
        if (nIsPow2 || i + blockSize < n) mySum += g_idata[i + blockSize];
        i += gridSize;
    }
    sdata[tid] = mySum;
    __syncthreads();
    if (blockSize >= 512) { if (tid < 256) { sdata[tid] += sdata[tid + 256]; } __syncthreads(); }
    if (blockSize >= 256) { if (tid < 128) { sdata[tid] += sdata[tid + 128]; } __syncthreads(); }
    if (blockSize >= 128) { if (tid < 64) { sdata[tid] += sdata[tid + 64]; } __syncthreads(); }
    if (tid < 32) warpReduce<blockSize>(sdata, tid);
    if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}
"""
module = lab.cuda.compile(SOURCE)


def reduce(x, y, n, blocks, threads):
    kernel = module[f"reduce6<{threads},false>"]
    kernel[blocks, threads, 4 * (threads + 32)](x, y, n)


def sum_v1(x, out):
    n = x.numel()
    blocks = min(64, (n + 511) // 512)
    partial = torch.empty(blocks, dtype=x.dtype, device=x.device)
    reduce(x, partial, n, blocks, 256)
    reduce(partial, out, blocks, 1, 64)

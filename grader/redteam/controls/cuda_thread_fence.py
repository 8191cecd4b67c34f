# tries: threadFenceReduction of NVIDIA's samples: the last block to finish adds the partial sums
# exercise: 10_reduction/sum_v1
# expect: accepted

import torch

SOURCE = r"""
__device__ unsigned int count = 0;
__shared__ bool isLastBlockDone;

__device__ float calculatePartialSum(const float* array, unsigned int N) {
    __shared__ float buffer[256];
    float v = 0.0f;
    for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += blockDim.x * gridDim.x) v += array[i];
    buffer[threadIdx.x] = v;
    __syncthreads();
    for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) buffer[threadIdx.x] += buffer[threadIdx.x + s];
        __syncthreads();
    }
    return buffer[0];
}

__device__ float calculateTotalSum(volatile float* result) {
    float total = 0.0f;
    for (unsigned int i = 0; i < gridDim.x; ++i) total += result[i];
    return total;
}

__global__ void sum(const float* array, unsigned int N, volatile float* result, float* out) {
    float partialSum = calculatePartialSum(array, N);
    if (threadIdx.x == 0) {
        result[blockIdx.x] = partialSum;
        __threadfence();
        unsigned int value = atomicInc(&count, gridDim.x);
        isLastBlockDone = (value == (gridDim.x - 1));
    }
    __syncthreads();
    if (isLastBlockDone) {
        if (threadIdx.x == 0) {
            *out = calculateTotalSum(result);
            count = 0;
        }
    }
}
"""
kernel = lab.cuda.compile(SOURCE, "sum")


def sum_v1(x, out):
    n = x.numel()
    blocks = min(16, (n + 255) // 256)
    result = torch.empty(blocks, device=x.device)
    kernel[blocks, 256](x, n, result, out)

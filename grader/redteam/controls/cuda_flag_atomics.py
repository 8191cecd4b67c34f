# tries: the same chain with atomics as flag: atomicExch to publish, atomicAdd of zero to read
# exercise: 10_reduction/sum_v1
# expect: accepted

import torch

SOURCE = r"""
__global__ void chained_sum(const float* x, float* carry, int* flags, float* out, int n) {
    __shared__ int ticket;
    __shared__ float parts[8];
    if (threadIdx.x == 0) ticket = atomicAdd(&flags[0], 1);
    __syncthreads();
    const int i = ticket * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    for (int s = 16; s > 0; s /= 2) v += __shfl_xor_sync(~0u, v, s);
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = v;
    __syncthreads();
    if (threadIdx.x != 0) return;
    float total = 0.0f;
    for (int w = 0; w < 8; ++w) total += parts[w];
    if (ticket) {
        while (atomicAdd(&flags[ticket], 0) == 0);
        __threadfence();
        total += carry[ticket - 1];
    }
    if (ticket + 1 == gridDim.x) { *out = total; return; }
    carry[ticket] = total;
    __threadfence();
    atomicExch(&flags[ticket + 1], 1);
}
"""
chained_sum = lab.cuda.compile(SOURCE, "chained_sum")


def sum_v1(x, out):
    n = x.numel()
    blocks = (n + 255) // 256
    flags = torch.zeros(blocks + 1, dtype=torch.int32, device=x.device)
    chained_sum[blocks, 256](x, torch.empty(blocks, device=x.device), flags, out, n)

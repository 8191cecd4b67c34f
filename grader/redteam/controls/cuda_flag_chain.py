# tries: blocks hand a sum on to the next by a volatile flag and fences
# exercise: 10_reduction/sum_v1
# expect: accepted

import torch

SOURCE = r"""
__global__ void chained_sum(const float* x, float* carry, int* ready, int* order, float* out, int n) {
    __shared__ int ticket;
    __shared__ float total;
    if (threadIdx.x == 0) { ticket = atomicAdd(order, 1); total = 0.0f; }
    __syncthreads();
    const int i = ticket * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    for (int s = warpSize / 2; s > 0; s /= 2) v += __shfl_down_sync(0xffffffff, v, s);
    if (threadIdx.x % warpSize == 0) atomicAdd(&total, v);
    __syncthreads();
    if (threadIdx.x == 0) {
        float before = 0.0f;
        if (ticket > 0) {
            while (*(volatile int*)&ready[ticket - 1] == 0) { }
            __threadfence();
            before = ((volatile float*)carry)[ticket - 1];
        }
        ((volatile float*)carry)[ticket] = before + total;
        __threadfence();
        *(volatile int*)&ready[ticket] = 1;
        if (ticket == gridDim.x - 1) *out = before + total;
    }
}
"""
chained_sum = lab.cuda.compile(SOURCE, "chained_sum")


def sum_v1(x, out):
    n = x.numel()
    blocks = (n + 255) // 256
    carry = torch.empty(blocks, device=x.device)
    flags = torch.zeros(blocks + 1, dtype=torch.int32, device=x.device)
    chained_sum[blocks, 256](x, carry, flags[1:], flags[:1], out, n)

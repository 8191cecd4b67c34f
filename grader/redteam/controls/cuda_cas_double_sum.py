# tries: atomicAdd for double by compare-and-swap, as in NVIDIA's programming guide
# exercise: 10_reduction/sum_v1
# expect: accepted

import torch

SOURCE = r"""
__device__ double atomic_add_double(double* address, double val)
{
    unsigned long long int* address_as_ull = (unsigned long long int*)address;
    unsigned long long int old = *address_as_ull, assumed;

    do {
        assumed = old;
        old = atomicCAS(address_as_ull, assumed,
                        __double_as_longlong(val + __longlong_as_double(assumed)));
        // integer comparison avoids a hang in case of NaN (NaN != NaN)
    } while (assumed != old);

    return __longlong_as_double(old);
}

__global__ void add_all(const float* x, double* total, int n)
{
    __shared__ double block_total;
    if (threadIdx.x == 0) block_total = 0.0;
    __syncthreads();
    double mine = 0.0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) mine += x[i];
    for (int s = 16; s > 0; s >>= 1) mine += __shfl_down_sync(0xffffffffu, mine, s);
    if (threadIdx.x % 32 == 0) atomic_add_double(&block_total, mine);
    __syncthreads();
    if (threadIdx.x == 0) atomic_add_double(total, block_total);
}

__global__ void to_float(const double* total, float* out) { *out = (float)*total; }
"""
module = lab.cuda.compile(SOURCE)


def sum_v1(x, out):
    n = x.numel()
    total = torch.zeros(1, dtype=torch.float64, device=x.device)
    module.add_all[min((n + 255) // 256, 32), 256](x, total, n)
    module.to_float[1, 1](total, out)

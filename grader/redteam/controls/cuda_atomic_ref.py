# tries: cuda::atomic_ref from libcu++ with a memory order and a scope
# exercise: 10_reduction/sum_v1
# expect: accepted

SOURCE = r"""
#include <cuda/atomic>

__global__ void sum_all(const float* x, float* out, int n) {
    float v = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
    for (int s = 16; s > 0; s /= 2) v += __shfl_down_sync(~0u, v, s);
    if (threadIdx.x % 32 == 0) {
        cuda::atomic_ref<float, cuda::thread_scope_device> total(*out);
        total.fetch_add(v, cuda::memory_order_relaxed);
    }
}
"""
kernel = lab.cuda.compile(SOURCE, "sum_all")


def sum_v1(x, out):
    out.zero_()
    n = x.numel()
    kernel[min((n + 255) // 256, 40), 256](x, out, n)

# tries: cuda::pipeline with two stages in a loop over tiles
# exercise: 07_elementwise_cuda/vector_add
# expect: accepted

SOURCE = r"""
#include <cooperative_groups.h>
#include <cuda/pipeline>

__global__ void add(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out, int n) {
    __shared__ float tile[2][2][128];
    auto pipe = cuda::make_pipeline();
    const int t = threadIdx.x, step = gridDim.x * blockDim.x;
    const int first = blockIdx.x * blockDim.x + t;
    auto fetch = [&](int i, int stage) {
        pipe.producer_acquire();
        if (i < n) {
            cuda::memcpy_async(&tile[stage][0][t], &x[i], sizeof(float), pipe);
            cuda::memcpy_async(&tile[stage][1][t], &y[i], sizeof(float), pipe);
        }
        pipe.producer_commit();
    };
    int stage = 0;
    fetch(first, 0);
    for (int i = first; i < n; i += step, stage ^= 1) {
        fetch(i + step, stage ^ 1);
        cuda::pipeline_consumer_wait_prior<1>(pipe);
        out[i] = tile[stage][0][t] + tile[stage][1][t];
        pipe.consumer_release();
    }
}
"""
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    n = x.numel()
    add[(n + 511) // 512, 128](x, y, out, n)

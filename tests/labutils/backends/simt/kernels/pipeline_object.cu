#include <cooperative_groups.h>
#include <cuda/pipeline>

__global__ void pipeline_object(const float* x, float* y) {
    __shared__ __align__(16) float s[256];
    auto block = cooperative_groups::this_thread_block();
    auto pipe = cuda::make_pipeline();
    pipe.producer_acquire();
    cuda::memcpy_async(&s[2 * threadIdx.x], &x[blockIdx.x * 256 + 2 * threadIdx.x], cuda::aligned_size_t<8>(8), pipe);
    pipe.producer_commit();
    pipe.consumer_wait();
    block.sync();
    y[blockIdx.x * 128 + threadIdx.x] = s[threadIdx.x] + s[255 - threadIdx.x];
    pipe.consumer_release();
}

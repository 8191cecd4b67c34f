// tries: inline PTX: a lane number and an addition
// exercise: 07_elementwise_cuda/vector_add
// expect: accepted
// without a gpu: needs-gpu
__device__ __forceinline__ unsigned lane_id() {
    unsigned lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

__device__ __forceinline__ float add_ptx(float a, float b) {
    float c;
    asm("add.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

__global__ void vector_add_kernel(const float* __restrict__ x, const float* __restrict__ y,
                                  float* __restrict__ out, int n) {
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, threads = gridDim.x * blockDim.x;
    for (int i = 32 * warp + lane_id(); i < n; i += threads) out[i] = add_ptx(x[i], y[i]);
}

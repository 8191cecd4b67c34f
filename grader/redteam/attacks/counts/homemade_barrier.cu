// tries: waits at barriers of its own, which are not counted
// stopped by: what waits for a whole block is a barrier, however it is written
// exercise: 10_warp_reduction/sum_v5
// where: both
// expect: no undue points
// due: 3

__device__ int arrived[1 << 16];
__device__ void meet() {
    const int ticket = atomicAdd(&arrived[blockIdx.x], 1), all = (ticket / blockDim.x + 1) * blockDim.x;
    while (atomicAdd(&arrived[blockIdx.x], 0) < all) {}
}
__global__ void reduce_v5(const float* x, float* out, int n) {
    __shared__ float s[256];
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x * 2 + t;
    int mine = 0;
    atomicExch(&mine, 1);
    s[t] = (i < n ? x[i] : 0.0f) + (i + blockDim.x < n ? x[i + blockDim.x] : 0.0f);
    meet();
    for (int k = blockDim.x / 2; k > 0; k /= 2) {
        if (t < k) s[t] += s[t + k];
        meet();
    }
    if (t == 0) out[blockIdx.x] = s[0];
    atomicExch(&mine, 0);
}

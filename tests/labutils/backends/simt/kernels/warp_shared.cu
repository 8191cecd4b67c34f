// shared memory within a warp, ordered by __syncwarp
__global__ void warp_shared(const float* x, float* y) {
    __shared__ float s[8][33];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    s[warp][lane] = x[blockIdx.x * 256 + threadIdx.x];
    __syncwarp();
    for (int o = 16; o; o >>= 1) {
        float v = lane < o ? s[warp][lane + o] : 0;
        __syncwarp();
        if (lane < o) s[warp][lane] += v;
        __syncwarp();
    }
    if (lane == 0) y[blockIdx.x * 8 + warp] = s[warp][0];
}

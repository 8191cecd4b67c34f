__global__ void scan_warp(const int* x, int* y, int n) {
    __shared__ int totals[32];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5, v = t < n ? x[t] : 0;
    for (int o = 1; o < 32; o *= 2) {
        int left = __shfl_up_sync(0xffffffffu, v, o);
        if (lane >= o) v += left;
    }
    if (lane == 31) totals[warp] = v;
    __syncthreads();
    if (warp == 0) {
        int sum = lane < blockDim.x / 32 ? totals[lane] : 0;
        for (int o = 1; o < 32; o *= 2) {
            int left = __shfl_up_sync(0xffffffffu, sum, o);
            if (lane >= o) sum += left;
        }
        totals[lane] = sum;
    }
    __syncthreads();
    if (t < n) y[t] = v + (warp ? totals[warp - 1] : 0);
}
